package execute_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/internal/llama/llamatest"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// llamaLeg is a leg of 40 prefix tokens, of which some are resident or fetched,
// and 5 more.
func llamaLeg(path schema.Path, id byte, resident, fetched int64) execute.Leg {
	l := execute.Leg{
		ID: fmt.Sprintf("%02x112233445566778899aabbccddeeff", id), Kind: schema.LegRejected, Plan: "p", Inclusion: 0.1,
		Path: path, Model: "m", TokensPrompt: 45, TokensPrefix: 40, PrefixBlocks: []int64{7, 8, int64(id)}, Salt: "s",
		Candidate: schema.Candidate{
			Path: path, Worker: "w1", TokensResident: resident, TokensFetched: fetched, TokensComputed: 45 - resident - fetched,
			Bytes: -1, Recompute: 0.1,
		},
	}
	if fetched > 0 {
		l.Link, l.Candidate.Tier, l.Candidate.Bytes = "wire", schema.TierDisk, 1000
	}
	return l
}

func llamaLegs() executetest.Legs {
	unknown := llamaLeg(schema.PathRecompute, 9, 0, 0)
	unknown.Candidate.Worker = "nobody"
	return executetest.Legs{Unknown: unknown, Good: []execute.Leg{
		llamaLeg(schema.PathRecompute, 1, 0, 0), llamaLeg(schema.PathRecompute, 2, 16, 0),
		llamaLeg(schema.PathFetch, 3, 0, 40), llamaLeg(schema.PathFetch, 4, 0, 16),
		llamaLeg(schema.PathRoute, 5, 40, 0), llamaLeg(schema.PathResident, 6, 40, 0),
	}}
}

// llamaSite is servers and an executor on their second slots.
type llamaSite struct {
	*execute.Llama
	link *llama.Link
	dir  string
}

func newLlama(t *testing.T, url, save string, change func(*execute.LlamaConfig)) *llamaSite {
	link, err := llama.NewLink("wire", 20e6)
	require.NoError(t, err)
	s := &llamaSite{link: link, dir: t.TempDir()}
	cfg := execute.LlamaConfig{
		Workers:     []execute.LlamaWorker{{Name: "w1", URL: url, Slot: 1, SaveDir: save}, {Name: "w2", URL: url, Slot: 1, SaveDir: save}},
		Tiers:       []execute.LlamaTier{{Tier: schema.TierDisk, Link: link, Dir: s.dir}},
		BlockTokens: 16, Vocab: llamatest.Vocab(), GateWait: time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	s.Llama, err = execute.NewLlama(cfg)
	require.NoError(t, err)
	return s
}

// one is an executor of one worker on a false server.
func one(t *testing.T, f *llamatest.False, change func(*execute.LlamaConfig)) *llamaSite {
	return newLlama(t, f.URL, f.SaveDir, change)
}

func TestLlamaPassesTheSuite(t *testing.T) {
	f, legs := llamatest.NewFalse(t), llamaLegs()
	legs.Empty = func(t *testing.T) {
		assert.Zero(t, f.Held(1), "tokens in the replay slot")
		assert.Empty(t, filesIn(t, f.SaveDir))
	}
	executetest.Suite(t, legs, func(t *testing.T) execute.Executor { return one(t, f, nil) })
}

func filesIn(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// The real engine: the suite, and the proof that production's slot holds after
// all legs what it held before, which it still reuses whole.
func TestRealLlamaPassesTheSuite(t *testing.T) {
	s := llamatest.Server(t, 2)
	production := llama.Completion{Prompt: llamatest.Vocab().Prefix([]int64{7, 8, 9}, 16, 48), Slot: 0, Generate: 1}
	_, err := s.Complete(t.Context(), production)
	require.NoError(t, err)
	held := func() (out [2]int) {
		slots, err := s.Slots(t.Context())
		require.NoError(t, err)
		return [2]int{slots[0].CachedTokens, slots[1].CachedTokens}
	}
	before := held()
	legs := llamaLegs()
	legs.Empty = func(t *testing.T) {
		assert.Equal(t, [2]int{before[0], 0}, held())
		assert.Empty(t, filesIn(t, s.SaveDir))
	}
	executetest.Suite(t, legs, func(t *testing.T) execute.Executor { return newLlama(t, s.URL, s.SaveDir, nil) })
	again, err := s.Complete(t.Context(), production)
	require.NoError(t, err)
	assert.Equal(t, int64(47), again.Cached, "all but the token that must be computed")
}

// What a fetch needs is computed once, and charged to the leg that had it made.
func TestLlamaPreparesOnce(t *testing.T) {
	f := llamatest.NewFalse(t)
	s := one(t, f, nil)
	cost := func(leg execute.Leg) execute.Cost {
		c, err := s.Prepare(t.Context(), leg)
		require.NoError(t, err)
		r, err := s.Run(t.Context(), leg)
		require.NoError(t, err)
		assert.Equal(t, float64(r.Observed.Bytes.V), r.Cost.Bytes)
		assert.InDelta(t, r.Observed.ExposedStall.V, r.Observed.TransferQueue.V+r.Observed.Transfer.V, 1e-9)
		require.NoError(t, s.Cleanup(t.Context(), leg))
		return c
	}
	leg := llamaLeg(schema.PathFetch, 3, 0, 40)
	assert.Positive(t, cost(leg).GPUSeconds)
	other := llamaLeg(schema.PathFetch, 8, 0, 40) // of another prefix, of the same size
	assert.Zero(t, cost(other), "it is in the namespace")
	assert.Len(t, filesIn(t, s.dir), 1)
	assert.Positive(t, s.link.Moved())
	reopened := one(t, f, func(c *execute.LlamaConfig) { c.Tiers[0].Dir = s.dir })
	c, err := reopened.Prepare(t.Context(), leg)
	require.NoError(t, err)
	assert.Zero(t, c, "an earlier process left it")
	require.NoError(t, reopened.Cleanup(t.Context(), leg))
}

func TestLlamaNamespaceHasAQuota(t *testing.T) {
	f := llamatest.NewFalse(t)
	s := one(t, f, func(c *execute.LlamaConfig) { c.Tiers[0].Quota = 400 })
	for id := range byte(5) {
		leg := llamaLeg(schema.PathFetch, 16+id, 0, int64(40-id)) // some 160 bytes
		_, err := s.Prepare(t.Context(), leg)
		require.NoError(t, err)
		_, err = s.Run(t.Context(), leg)
		require.NoError(t, err)
		require.NoError(t, s.Cleanup(t.Context(), leg))
		assert.LessOrEqual(t, len(filesIn(t, s.dir)), 2)
	}
	tiny := one(t, f, func(c *execute.LlamaConfig) { c.Tiers[0].Quota = 50 })
	_, err := tiny.Prepare(t.Context(), llamaLeg(schema.PathFetch, 30, 0, 40))
	assert.ErrorIs(t, err, execute.ErrRefused)
	assert.ErrorContains(t, err, "quota")
	assert.Zero(t, f.Held(1))
}

func TestLlamaRefusesWhatItCannotForce(t *testing.T) {
	f := llamatest.NewFalse(t)
	for name, change := range map[string]func(*execute.Leg){
		"resident beside fetched":  func(l *execute.Leg) { l.Candidate.TokensResident = 8; l.Candidate.TokensComputed -= 8 },
		"a link that it has not":   func(l *execute.Leg) { l.Link = "other" },
		"a tier that it has not":   func(l *execute.Leg) { l.Candidate.Tier = schema.TierObject },
		"nothing to compute":       func(l *execute.Leg) { l.Candidate.TokensComputed = 0 },
		"sizes that do not add up": func(l *execute.Leg) { l.TokensPrompt = 100 },
		"a fetch of nothing":       func(l *execute.Leg) { l.Candidate.TokensFetched = 0; l.Candidate.TokensComputed = 45 },
	} {
		t.Run(name, func(t *testing.T) {
			leg := llamaLeg(schema.PathFetch, 3, 0, 40)
			change(&leg)
			_, err := one(t, f, nil).Prepare(t.Context(), leg)
			assert.ErrorIs(t, err, execute.ErrRefused)
		})
	}
	alone := one(t, f, func(c *execute.LlamaConfig) { c.Workers, c.Tiers = c.Workers[:1], nil })
	for _, c := range alone.Capabilities() {
		assert.Equal(t, c.Path == schema.PathRecompute || c.Path == schema.PathResident, c.Can, "%+v", c)
	}
	for _, cfg := range []execute.LlamaConfig{
		{}, {Workers: []execute.LlamaWorker{{Name: "w", URL: "127.0.0.1"}}}, {Workers: []execute.LlamaWorker{{Name: "w", URL: f.URL}}},
		{Workers: []execute.LlamaWorker{{Name: "w", URL: f.URL, SaveDir: "x"}}, Tiers: []execute.LlamaTier{{Tier: schema.TierDisk}}},
		{Workers: []execute.LlamaWorker{{Name: "w", URL: f.URL, SaveDir: "x"}}, Vocab: llama.Vocab{First: 9, End: 9}},
	} {
		_, err := execute.NewLlama(cfg)
		assert.ErrorContains(t, err, "llama.cpp executor")
	}
}

// Whatever a server does, a leg ends with an error of the right class, and the
// next one runs.
func TestLlamaFaults(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for name, c := range map[string]struct {
		path  string
		fault func(http.ResponseWriter, *http.Request)
		again bool // may be tried again
		says  string
	}{
		"dies in mid-stream": {"/completion", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "data: {\"content\":\"\",\"prompt_progress\":{\"total\":45}}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, true, "stream broke off"},
		"ends a stream early": {"/completion", answer(200, "data: {\"content\":\"x\"}\n\n"), true, "stream broke off"},
		"is loading":          {"/completion", answer(503, `{"error":{"code":503,"message":"Loading model"}}`), true, "Loading model"},
		"is loading, metrics": {"/metrics", answer(503, `{"error":{"code":503,"message":"Loading model"}}`), true, "Loading model"},
		"garbage":             {"/completion", answer(200, "data: {{{\n\n"), false, "can not be read"},
		"garbage metrics":     {"/metrics", answer(200, "llamacpp:requests_processing x"), false, "can not be read"},
		"no metrics":          {"/metrics", answer(200, ""), false, "--metrics"},
		"no timings":          {"/completion", answer(200, "data: {\"content\":\"x\",\"stop\":true}\n\n"), false, "no timings"},
		"an error in the stream": {"/completion",
			answer(200, "data: {\"error\":{\"code\":500,\"message\":\"decode failed\"}}\n\n"), false, "decode failed"},
		"too long a prompt": {"/completion", answer(400, `{"error":{"code":400,"message":"exceeds the context"}}`), false, "exceeds"},
		"a token before it computed": {"/completion",
			answer(200, "data: {\"content\":\"x\",\"stop\":true,\"timings\":{\"cache_n\":40,\"prompt_n\":5}}\n\n"), false, "not forced"},
		"can not erase": {"/slots/1", answer(500, "disk"), false, "disk"},
		"hangs": {"/completion", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = new(bytes.Buffer).ReadFrom(r.Body)
			<-r.Context().Done()
		}, true, "no end within"},
	} {
		t.Run(name, func(t *testing.T) {
			f, leg := llamatest.NewFalse(t), llamaLeg(schema.PathRecompute, 1, 0, 0)
			var broken atomic.Bool
			broken.Store(true)
			f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				hit := broken.Load() && r.URL.Path == c.path
				if hit {
					c.fault(w, r)
				}
				return hit
			}
			s := one(t, f, func(cfg *execute.LlamaConfig) { cfg.Timeout = 500 * time.Millisecond })
			_, err := s.Prepare(t.Context(), leg)
			if err == nil {
				_, err = s.Run(t.Context(), leg)
			}
			assert.ErrorContains(t, err, c.says)
			assert.Equal(t, c.again, isUnavailable(err), err)
			broken.Store(false)
			require.NoError(t, s.Cleanup(t.Context(), leg))
			_, err = s.Prepare(t.Context(), leg)
			require.NoError(t, err, "the slot was given back")
			_, err = s.Run(t.Context(), leg)
			assert.NoError(t, err)
			require.NoError(t, s.Cleanup(t.Context(), leg))
			assert.Zero(t, f.Held(1))
		})
	}
}

func isUnavailable(err error) bool { return errors.Is(err, execute.ErrUnavailable) }

// A leg waits for a quiet engine, and one that others joined is no measurement;
// what it cost is charged when it comes again.
func TestLlamaGate(t *testing.T) {
	f, leg := llamatest.NewFalse(t), llamaLeg(schema.PathRecompute, 1, 0, 0)
	s := one(t, f, func(c *execute.LlamaConfig) { c.GateWait = 30 * time.Millisecond })
	f.Busy = 1
	_, err := s.Prepare(t.Context(), leg)
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	assert.ErrorContains(t, err, "1 requests")
	state, err := s.State(t.Context(), leg)
	require.NoError(t, err)
	assert.True(t, math.IsNaN(state.GPUQueue), "a busy engine does not say how long")
	f.Busy = 0
	state, err = s.State(t.Context(), leg)
	require.NoError(t, err)
	assert.Equal(t, execute.State{}, state)

	f.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/completion" {
			f.AddWork(100)
		}
		return false
	}
	_, err = s.Prepare(t.Context(), leg)
	require.NoError(t, err)
	_, err = s.Run(t.Context(), leg)
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	assert.ErrorContains(t, err, "100 tokens of others")
	require.NoError(t, s.Cleanup(t.Context(), leg))
	f.Fault = nil
	cost, err := s.Prepare(t.Context(), leg)
	require.NoError(t, err)
	assert.Positive(t, cost.GPUSeconds, "of the attempt before")
	require.NoError(t, s.Cleanup(t.Context(), leg))
}

// A file that does not restore is not used again.
func TestLlamaDropsABadFile(t *testing.T) {
	f, leg := llamatest.NewFalse(t), llamaLeg(schema.PathFetch, 3, 0, 40)
	s := one(t, f, nil)
	_, err := s.Prepare(t.Context(), leg)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, filesIn(t, s.dir)[0]), []byte("torn"), 0o600))
	_, err = s.Run(t.Context(), leg)
	assert.ErrorContains(t, err, "Unable to restore")
	require.NoError(t, s.Cleanup(t.Context(), leg))
	assert.Empty(t, filesIn(t, s.dir))
	_, err = run(t.Context(), s, leg)
	assert.NoError(t, err)
}

func run(ctx context.Context, ex execute.Executor, leg execute.Leg) (execute.Result, error) {
	if _, err := ex.Prepare(ctx, leg); err != nil {
		return execute.Result{}, err
	}
	defer func() { _ = ex.Cleanup(ctx, leg) }()
	return ex.Run(ctx, leg)
}
