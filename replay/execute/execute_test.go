package execute_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func leg(path schema.Path, worker string) execute.Leg {
	l := execute.Leg{
		ID: "00112233445566778899aabbccddeeff", Kind: schema.LegRejected, Of: schema.TraceID{1}, OfSpan: schema.SpanID{2},
		Plan: "v1-x", Stratum: "s", Batch: "b", Inclusion: 0.02, Path: path, CandidateIndex: 1,
		Model: "m", GPU: "g", TokensPrompt: 5000, TokensPrefix: 4096, PrefixBlocks: []int64{7, -8}, Salt: "salt",
		DecidedNanos: 1e18, Decision: execute.State{GPUQueue: 0.1, Flows: 15}, ModelDecision: 0.3,
		Candidate: schema.Candidate{
			Path: path, Worker: worker, TokensComputed: 5000, Bytes: -1, GPUQueue: 0.1, TransferQueue: math.NaN(),
			Bandwidth: math.NaN(), Restore: math.NaN(), Recompute: 0.2, TTFT: 0.3, Externality: math.NaN(), Propensity: 0.5,
		},
	}
	if path == schema.PathFetch {
		c := &l.Candidate
		c.Bytes, c.Bandwidth, c.TransferQueue, c.Restore, c.Recompute = 1<<30, 50e9/16, 0.001, 0.002, 0.01
		c.Tier, c.Source, c.Links = schema.TierCPU, "host", "fabric"
		l.Link = "fabric"
	}
	return l
}

func legs() executetest.Legs {
	good := []execute.Leg{leg(schema.PathRecompute, "w1"), leg(schema.PathFetch, "w1")}
	good[1].ID = "10112233445566778899aabbccddeeff"
	return executetest.Legs{Good: good, Unknown: leg(schema.PathRecompute, "nobody")}
}

func TestFakePassesTheSuite(t *testing.T) {
	executetest.Suite(t, legs(), func(*testing.T) execute.Executor { return &executetest.Fake{} })
}

func TestSimulatorPassesTheSuite(t *testing.T) {
	executetest.Suite(t, legs(), func(t *testing.T) execute.Executor { return client(t, &executetest.Fake{}) })
}

func client(t *testing.T, ex execute.Executor) *execute.Simulator {
	server := httptest.NewServer(execute.Handler(ex))
	t.Cleanup(server.Close)
	s, err := execute.NewSimulator(server.URL+"/", time.Minute)
	require.NoError(t, err)
	return s
}

func TestALegIsRunOnce(t *testing.T) {
	fake := &executetest.Fake{Prep: execute.Cost{GPUSeconds: 1, Bytes: 5}}
	s, l := client(t, fake), leg(schema.PathRecompute, "w1")
	first, err := s.Run(t.Context(), l)
	require.NoError(t, err)
	second, err := s.Run(t.Context(), l)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(first, second, cmpopts.EquateNaNs()))
	assert.Equal(t, map[string]int{l.ID: 1}, fake.Ran())
	assert.Equal(t, map[string]int{l.ID: 1}, fake.Cleaned())
	assert.Equal(t, execute.Cost{GPUSeconds: 1.2, Bytes: 5}, first.Cost, "preparation counts")
}

func TestErrorsTellWhetherToTryAgain(t *testing.T) {
	cases := map[string]struct {
		err       error
		available bool
		refused   bool
	}{
		"busy":    {fmt.Errorf("full: %w", execute.ErrUnavailable), false, false},
		"refused": {fmt.Errorf("no: %w", execute.ErrRefused), true, true},
		"failed":  {errors.New("broken"), true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fake := &executetest.Fake{Fail: func(execute.Leg) error { return c.err }}
			_, err := client(t, fake).Run(t.Context(), leg(schema.PathRecompute, "w1"))
			assert.Equal(t, !c.available, errors.Is(err, execute.ErrUnavailable), err)
			assert.Equal(t, c.refused, errors.Is(err, execute.ErrRefused), err)
			assert.ErrorContains(t, err, c.err.Error())
		})
	}
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	gone, err := execute.NewSimulator(server.URL, time.Second)
	require.NoError(t, err)
	_, err = gone.Run(t.Context(), leg(schema.PathRecompute, "w1"))
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	_, err = execute.NewSimulator("127.0.0.1:8090", 0)
	assert.ErrorContains(t, err, "give one such as")
}

func TestWhatWasNotRunMayBeTriedAgain(t *testing.T) {
	failing := true
	fake := &executetest.Fake{Fail: func(execute.Leg) error {
		if failing {
			return execute.ErrUnavailable
		}
		return nil
	}}
	s := client(t, fake)
	_, err := s.Run(t.Context(), leg(schema.PathRecompute, "w1"))
	require.Error(t, err)
	failing = false
	_, err = s.Run(t.Context(), leg(schema.PathRecompute, "w1"))
	assert.NoError(t, err)
}

func TestBadAnswersAndLegsAreErrors(t *testing.T) {
	for name, body := range map[string]string{
		"no TTFT":  `{"start_unix_nanos":1,"end_unix_nanos":2}`,
		"negative": `{"start_unix_nanos":1,"end_unix_nanos":2,"observed":{"ttft":-1}}`,
		"no JSON":  `<html>`,
		"backward": `{"start_unix_nanos":3,"end_unix_nanos":2,"observed":{"ttft":1}}`,
		"cost":     `{"start_unix_nanos":1,"end_unix_nanos":2,"observed":{"ttft":1},"cost":{"gpu_seconds":-1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
			defer server.Close()
			s, err := execute.NewSimulator(server.URL, time.Minute)
			require.NoError(t, err)
			_, err = s.Run(t.Context(), leg(schema.PathRecompute, "w1"))
			assert.ErrorContains(t, err, "run leg 0011")
			assert.NotErrorIs(t, err, execute.ErrUnavailable)
		})
	}
	for _, body := range []string{"", "{", "{}", `{"id":"x","kind":"odd"}`} {
		rec := httptest.NewRecorder()
		execute.Handler(&executetest.Fake{}).ServeHTTP(rec, httptest.NewRequest("POST", execute.LegsPath, bytesOf(body)))
		assert.Equal(t, http.StatusBadRequest, rec.Code, body)
	}
}

func TestRunEndsWithItsContextInFlight(t *testing.T) {
	started := make(chan struct{})
	fake := &executetest.Fake{Block: func(ctx context.Context, _ execute.Leg) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}}
	s := client(t, fake)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	_, err := s.Run(ctx, leg(schema.PathRecompute, "w1"))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestJSONIsWhatIsDocumented(t *testing.T) {
	l := leg(schema.PathFetch, "w1")
	l.Candidate.Externality = math.NaN()
	r := execute.Result{StartNanos: 1, EndNanos: 2, State: execute.State{GPUQueue: 0.01, Flows: math.NaN()},
		Observed: schema.Observed{TTFT: schema.Some(0.2), Bytes: schema.Some[int64](5)}, Cost: execute.Cost{GPUSeconds: 0.1}}
	golden(t, "leg.json", l)
	golden(t, "result.json", r)

	var back execute.Leg
	text, err := json.Marshal(l)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Empty(t, cmp.Diff(l, back, cmpopts.EquateNaNs()))
	var result execute.Result
	text, err = json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &result))
	assert.Empty(t, cmp.Diff(r, result, cmpopts.EquateNaNs()))
	assert.Equal(t, uint64(0x0011223344556677), l.Seed())
}

func golden(t *testing.T, name string, v any) {
	got, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got)+"\n")
}

func FuzzLeg(f *testing.F) {
	text, _ := json.Marshal(leg(schema.PathFetch, "w"))
	f.Add(text)
	f.Add([]byte(`{"kind":"","of":"00","candidate":{"ttft":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, again execute.Leg
		if json.Unmarshal(b, &l) != nil {
			return
		}
		text, err := json.Marshal(l)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &again))
		assert.Empty(t, cmp.Diff(l, again, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()))
	})
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"start_unix_nanos":1,"observed":{"ttft":1e-3},"state":{"flows":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again execute.Result
		if json.Unmarshal(b, &r) != nil {
			return
		}
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &again))
		assert.Empty(t, cmp.Diff(r, again, cmpopts.EquateNaNs()))
	})
}
