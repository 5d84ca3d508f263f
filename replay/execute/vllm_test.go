package execute_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// servingLeg is a leg of prefix tokens, of which some are resident or fetched, and
// 5 more.
func servingLeg(path schema.Path, id byte, prefix, resident, fetched int64) execute.Leg {
	l := llamaLeg(path, id, 0, 0)
	l.TokensPrompt, l.TokensPrefix, l.Link = prefix+5, prefix, ""
	l.Candidate.TokensResident, l.Candidate.TokensFetched, l.Candidate.TokensComputed = resident, fetched, prefix+5-resident-fetched
	if fetched > 0 {
		l.Candidate.Tier, l.Candidate.Bytes = schema.TierCPU, 1000*fetched
	}
	return l
}

func servingLegs() executetest.Legs {
	unknown := servingLeg(schema.PathRecompute, 9, 70, 0, 0)
	unknown.Candidate.Worker = "nobody"
	return executetest.Legs{Unknown: unknown, Good: []execute.Leg{
		servingLeg(schema.PathRecompute, 1, 70, 0, 0), servingLeg(schema.PathRecompute, 2, 70, 32, 0),
		servingLeg(schema.PathFetch, 3, 70, 0, 64), servingLeg(schema.PathFetch, 4, 100, 32, 64), servingLeg(schema.PathFetch, 7, 40, 0, 40),
		servingLeg(schema.PathRoute, 5, 70, 70, 0), servingLeg(schema.PathResident, 6, 70, 64, 0),
	}}
}

func vllmConfig(url string) execute.ServingConfig {
	return execute.ServingConfig{
		Workers: []execute.ServingWorker{{Name: "w1", URL: url}, {Name: "w2", URL: url}}, BlockTokens: 16,
		Vocab: llama.Vocab{First: 3, End: 500}, GateWait: 5 * time.Second,
		External: schema.TierCPU, ExternalBlock: 32, MayDrop: true,
	}
}

func newVLLM(t *testing.T, f *falseVLLM, change func(*execute.ServingConfig)) *execute.Serving {
	cfg := vllmConfig(f.URL)
	if change != nil {
		change(&cfg)
	}
	e, err := execute.NewVLLM(cfg)
	require.NoError(t, err)
	require.NoError(t, e.Probe(t.Context()))
	return e
}

func TestVLLMPassesTheSuite(t *testing.T) {
	legs := servingLegs()
	// One worker: the two of the configuration are one server, whose metrics would
	// show that legs on both disturb each other.
	executetest.Suite(t, legs, func(t *testing.T) execute.Executor {
		f := newFalseVLLM(t)
		f.external = true
		return newVLLM(t, f, nil)
	})
}

// Every request has an id that keeps its spans out of production's, and a salt;
// what legs computed is hit by nobody else.
func TestVLLMKeepsToItself(t *testing.T) {
	f := newFalseVLLM(t)
	f.external = true
	production := llama.Vocab{First: 3, End: 500}.Prefix([]int64{7, 8, 1}, 16, 70)
	e := newVLLM(t, f, nil)
	for _, leg := range servingLegs().Good {
		_, err := run(t.Context(), e, leg)
		require.NoError(t, err)
	}
	for _, id := range f.ids {
		assert.True(t, strings.HasPrefix(id, schema.ReplayRequestIDPrefix), id)
	}
	assert.False(t, f.salts[""], "a leg without a salt")
	assert.Zero(t, f.work("production", &vllmRequest{Prompt: production}), "production hits what a leg computed")
}

func TestVLLMSaysWhatItCanForce(t *testing.T) {
	for name, c := range map[string]struct {
		server func(*falseVLLM)
		config func(*execute.ServingConfig)
		can    string // the paths
		why    string // of one that it can not
	}{
		"all":              {func(f *falseVLLM) { f.external = true }, nil, "fetch recompute route resident", ""},
		"no connector":     {nil, nil, "recompute route resident", "no KV connector"},
		"may not drop":     {func(f *falseVLLM) { f.external = true }, func(c *execute.ServingConfig) { c.MayDrop = false }, "recompute route resident", "may not be dropped"},
		"no dev mode":      {func(f *falseVLLM) { f.external, f.nodev = true, true }, nil, "recompute route resident", "VLLM_SERVER_DEV_MODE"},
		"no tier named":    {func(f *falseVLLM) { f.external = true }, func(c *execute.ServingConfig) { c.External = schema.TierNone }, "recompute route resident", "of which tier"},
		"ignores salts":    {func(f *falseVLLM) { f.external, f.unsalted = true, true }, nil, "recompute route resident", "ignores cache_salt"},
		"no priority":      {func(f *falseVLLM) { f.priority = false }, nil, "recompute route resident", ""},
		"one server":       {nil, func(c *execute.ServingConfig) { c.Workers = c.Workers[:1] }, "recompute resident", "no other worker"},
		"silent, but idle": {func(f *falseVLLM) { f.silent = true }, nil, "recompute route resident", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFalseVLLM(t)
			if c.server != nil {
				c.server(f)
			}
			var can, why []string
			for _, got := range newVLLM(t, f, c.config).Capabilities() {
				if got.Worker == "w1" && got.Can {
					can = append(can, got.Path.String())
				}
				why = append(why, got.Why)
			}
			assert.Equal(t, c.can, strings.Join(can, " "))
			assert.Contains(t, strings.Join(why, "; "), c.why)
		})
	}
	f := newFalseVLLM(t)
	f.unsalted = true
	e := newVLLM(t, f, nil)
	for range 2 { // its tokens are fresh where salts do nothing
		_, err := run(t.Context(), e, servingLeg(schema.PathRecompute, 1, 70, 0, 0))
		assert.NoError(t, err)
	}
}

// A leg that ran another path than its own is no measurement, and the reason says
// what ran.
func TestVLLMNotForced(t *testing.T) {
	f := newFalseVLLM(t)
	f.external = true
	e, leg := newVLLM(t, f, nil), servingLeg(schema.PathFetch, 3, 70, 0, 64)
	_, err := e.Prepare(t.Context(), leg)
	require.NoError(t, err)
	f.lose()
	_, err = e.Run(t.Context(), leg)
	assert.ErrorIs(t, err, execute.ErrNotForced)
	assert.ErrorContains(t, err, "found 0 tokens in its own cache and 0 beside it, the leg asks for 0 and 64")
	require.NoError(t, e.Cleanup(t.Context(), leg))
	_, err = run(t.Context(), e, leg)
	assert.NoError(t, err, "the namespace is filled again")

	leg = servingLeg(schema.PathResident, 6, 70, 64, 0)
	cost, err := e.Prepare(t.Context(), leg)
	require.NoError(t, err)
	assert.Positive(t, cost.GPUSeconds, "what it finds was computed for it")
	f.mu.Lock()
	clear(f.local) // now it would be fetched
	f.mu.Unlock()
	_, err = e.Run(t.Context(), leg)
	assert.ErrorIs(t, err, execute.ErrNotForced)
	assert.ErrorContains(t, err, "0 tokens in its own cache and 64 beside it")
	require.NoError(t, e.Cleanup(t.Context(), leg))
}

// Others beside a leg make it no measurement; where they are allowed, only what
// the answer itself shows counts.
func TestVLLMBesideOthers(t *testing.T) {
	f := newFalseVLLM(t)
	f.external = true
	beside := func(e *execute.Serving, leg execute.Leg) error {
		_, err := e.Prepare(t.Context(), leg)
		require.NoError(t, err)
		f.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v1/completions" {
				f.addWork(2, 100)
			}
			return false
		})
		_, err = e.Run(t.Context(), leg)
		f.setFault(nil)
		require.NoError(t, e.Cleanup(t.Context(), leg))
		return err
	}
	alone := newVLLM(t, f, func(c *execute.ServingConfig) { c.GateWait = 50 * time.Millisecond })
	err := beside(alone, servingLeg(schema.PathRecompute, 1, 70, 0, 0))
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	assert.ErrorContains(t, err, "worked for others")
	cost, err := alone.Prepare(t.Context(), servingLeg(schema.PathRecompute, 1, 70, 0, 0))
	require.NoError(t, err)
	assert.Positive(t, cost.GPUSeconds, "of the attempt before")
	require.NoError(t, alone.Cleanup(t.Context(), servingLeg(schema.PathRecompute, 1, 70, 0, 0)))

	busy := newVLLM(t, f, func(c *execute.ServingConfig) { c.MaxBusy = 4 })
	assert.NoError(t, beside(busy, servingLeg(schema.PathRecompute, 1, 70, 0, 0)))
	err = beside(busy, servingLeg(schema.PathFetch, 3, 70, 0, 64))
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	assert.ErrorContains(t, err, "blur")

	f.Busy = 1
	_, err = alone.Prepare(t.Context(), servingLeg(schema.PathRecompute, 1, 70, 0, 0))
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	assert.ErrorContains(t, err, "more than 0 requests")
	state, err := alone.State(t.Context(), servingLeg(schema.PathRecompute, 1, 70, 0, 0))
	require.NoError(t, err)
	assert.True(t, math.IsNaN(state.GPUQueue), "a busy engine does not say how long")
}

// The namespace is one prefix: it is computed once on each server, and again where
// a longer part of it is wanted.
func TestVLLMStocksItsNamespace(t *testing.T) {
	f := newFalseVLLM(t)
	f.external = true
	var keeper execute.Keeper = newVLLM(t, f, func(c *execute.ServingConfig) { c.NamespaceTokens = 128 })
	for _, c := range []struct {
		sizes []int64
		built int
	}{{nil, 0}, {[]int64{32, 64}, 2}, {[]int64{64}, 0}, {[]int64{96}, 2}} {
		out, err := keeper.Stock(t.Context(), "", c.sizes)
		require.NoError(t, err)
		assert.Len(t, out, c.built)
	}
	assert.Equal(t, []execute.Namespace{{Tier: "cpu", Link: "w1", Sizes: []int64{96}}, {Tier: "cpu", Link: "w2", Sizes: []int64{96}}}, keeper.Namespaces())
	before := f.finished
	_, err := run(t.Context(), keeper.(execute.Executor), servingLeg(schema.PathFetch, 3, 70, 0, 64))
	require.NoError(t, err)
	assert.Equal(t, before+1, f.finished, "the leg found its prefix")
	_, err = keeper.Stock(t.Context(), "", []int64{200})
	assert.ErrorIs(t, err, execute.ErrRefused)
	none := newVLLM(t, newFalseVLLM(t), nil)
	out, err := none.Stock(t.Context(), "", []int64{64})
	assert.NoError(t, err, "no fetches there")
	assert.Empty(t, out)
}

func TestVLLMRefusesWhatItCannotForce(t *testing.T) {
	f := newFalseVLLM(t)
	f.external = true
	e := newVLLM(t, f, func(c *execute.ServingConfig) { c.NamespaceTokens = 128 })
	for name, change := range map[string]func(*execute.Leg){
		"a tier that it has not":        func(l *execute.Leg) { l.Candidate.Tier = schema.TierDisk },
		"nothing to compute":            func(l *execute.Leg) { l.Candidate.TokensComputed = 0 },
		"sizes that do not add up":      func(l *execute.Leg) { l.TokensPrompt = 100 },
		"a fetch of nothing":            func(l *execute.Leg) { l.Candidate.TokensFetched, l.Candidate.TokensComputed = 0, 75 },
		"less than a block":             func(l *execute.Leg) { l.Candidate.TokensFetched, l.Candidate.TokensComputed = 31, 44 },
		"no bytes to charge":            func(l *execute.Leg) { l.Candidate.Bytes = -1 },
		"more than the namespace holds": func(l *execute.Leg) { *l = servingLeg(schema.PathFetch, 3, 200, 0, 160) },
	} {
		t.Run(name, func(t *testing.T) {
			leg := servingLeg(schema.PathFetch, 3, 70, 0, 64)
			change(&leg)
			_, err := e.Prepare(t.Context(), leg)
			assert.ErrorIs(t, err, execute.ErrRefused)
		})
	}
	for _, cfg := range []execute.ServingConfig{
		{}, {Workers: []execute.ServingWorker{{Name: "w", URL: "127.0.0.1"}}}, {Workers: []execute.ServingWorker{{URL: f.URL}}},
		{Workers: []execute.ServingWorker{{Name: "w", URL: f.URL}}, Vocab: llama.Vocab{First: 9, End: 9}},
	} {
		_, err := execute.NewVLLM(cfg)
		assert.ErrorContains(t, err, "vLLM executor")
	}
	other, err := execute.NewVLLM(execute.ServingConfig{Workers: []execute.ServingWorker{{Name: "w", URL: f.URL}}, Model: "big"})
	require.NoError(t, err)
	assert.ErrorContains(t, other.Probe(t.Context()), `no model "big", but ["tiny"]`)
}

// Whatever a server does, a leg ends with an error of the right class, and the
// next one runs.
func TestVLLMFaults(t *testing.T) {
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
		"dies in mid-stream":   {"/v1/completions", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, "EOF"},
		"ends a stream early":  {"/v1/completions", answer(200, "data: {\"choices\":[{}]}\n\n"), true, "stream broke off"},
		"is loading":           {"/v1/completions", answer(503, "loading"), true, "loading"},
		"garbage":              {"/v1/completions", answer(200, "data: {{{\n\n"), false, "can not be read"},
		"no token":             {"/v1/completions", answer(200, "data: [DONE]\n\n"), false, "without a token"},
		"counts other tokens":  {"/v1/completions", answer(200, "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":3}}\n\ndata: [DONE]\n\n"), false, "3 prompt tokens"},
		"a token it knows not": {"/v1/completions", answer(200, "data: {\"error\":{\"message\":\"out of vocabulary\",\"code\":400}}\n\n"), false, "out of vocabulary"},
		"an engine that died":  {"/v1/completions", answer(200, "data: {\"error\":{\"message\":\"EngineDeadError\",\"code\":500}}\n\n"), false, "EngineDeadError"},
		"too long a prompt":    {"/v1/completions", answer(400, "maximum context length"), false, "maximum context"},
		"garbage metrics":      {"/metrics", answer(200, "vllm:num_requests_running x"), false, "can not be read"},
		"no metrics":           {"/metrics", answer(200, ""), false, "--disable-log-stats"},
		"hangs": {"/v1/completions", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, true, "no end within"},
	} {
		t.Run(name, func(t *testing.T) {
			f, leg := newFalseVLLM(t), servingLeg(schema.PathRecompute, 1, 70, 0, 0)
			e := newVLLM(t, f, func(c *execute.ServingConfig) { c.Timeout = 300 * time.Millisecond })
			f.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != c.path {
					return false
				}
				c.fault(w, r)
				return true
			})
			_, err := run(t.Context(), e, leg)
			assert.ErrorContains(t, err, c.says)
			assert.Equal(t, c.again, isUnavailable(err), err)
			f.setFault(nil)
			_, err = run(t.Context(), e, leg)
			assert.NoError(t, err, "the worker was given back")
		})
	}
}
