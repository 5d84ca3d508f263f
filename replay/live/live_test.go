package live

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvwhatif/kvwhatif/internal/llama/llamatest"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

func TestStreamIsDeterministic(t *testing.T) {
	a, b := DefaultTraffic().Stream(), DefaultTraffic().Stream()
	assert.Equal(t, a, b)
	require.Len(t, a, 180)
	shared, longest := 0, 0
	for i, r := range a {
		require.True(t, i == 0 || r.At >= a[i-1].At)
		longest = max(longest, len(r.Blocks))
		for _, earlier := range a[:i] {
			if n := common(earlier.Blocks, r.Blocks); n == len(earlier.Blocks) && n < len(r.Blocks) {
				shared++
				break
			}
		}
	}
	assert.Greater(t, shared, 100, "turns that go on from an earlier one")
	assert.Less(t, (longest+1)*64, 4096)
	other := DefaultTraffic()
	other.Seed = 2
	assert.NotEqual(t, a, other.Stream())
}

func TestLineIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line
		first, second, third := l.join(2), l.join(3), l.join(5)
		at, err := first.wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Now(), at)
		time.Sleep(time.Second)
		assert.InDelta(t, 1+3+5, l.backlog(), 1e-9)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = second.wait(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		second.leave()
		first.leave()
		at, err = third.wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Now(), at)
		third.leave()
		third.leave()
		assert.Zero(t, l.backlog())
	})
}

// A law comes back from rungs that it made.
func TestPriorIsThatOfTheLadder(t *testing.T) {
	law, restore := cost.Prefill{C0: 0.02, C1: 8e-4, C2: 3e-7, Chunk: batchTokens}, cost.Restore{D0: 1e-3, D1: 1e-9}
	var rungs []Rung
	for _, n := range []int{128, 256, 512, 1024, 2048} {
		bytes := int64(8208 * n)
		rungs = append(rungs, Rung{n, law.Seconds(float64(n), 0), bytes, restore.Seconds(float64(bytes))})
	}
	f := &Fleet{workers: []*worker{{WorkerConfig: WorkerConfig{Rate: 5e6}}}}
	p := f.Prior(rungs)
	for n := 100.0; n < 3000; n += 100 {
		assert.InEpsilon(t, law.Seconds(n, 0), p.Prefill.Seconds(n, 0), 1e-6)
		assert.InEpsilon(t, restore.Seconds(n*8208), p.Restore.Seconds(n*8208), 1e-6)
	}
	assert.InDelta(t, 8208*1024/(law.Seconds(1024, 0)-restore.Seconds(8208*1024)), rungs[3].Crossing(), 1)
	falling := []Rung{{100, 0.5, 1, 1}, {200, 0.4, 2, 1}, {400, 0.3, 4, 1}}
	q := f.Prior(falling).Prefill
	assert.True(t, q.C0 >= 0 && q.C1 >= 0 && q.C2 >= 0, "%+v", q)
}

func TestWrongFleetsAndRequests(t *testing.T) {
	for _, c := range []Config{
		{Binary: "x", Workers: []WorkerConfig{{"a", "l", 1e6}, {"a", "m", 1e6}}},
		{Binary: "x", Workers: []WorkerConfig{{"a", "l", 1e6}, {"b", "l", 1e6}}},
		{Binary: "x", Context: 10, BlockTokens: 64},
	} {
		_, err := Start(t.Context(), t.TempDir(), c)
		assert.ErrorContains(t, err, "live fleet")
	}
	f := &Fleet{}
	_, err := f.Run(t.Context(), nil, Options{})
	assert.ErrorContains(t, err, "required")
}

func started(t *testing.T) *Fleet {
	llamatest.Binary(t)
	f, err := Start(t.Context(), t.TempDir(), Config{
		Shape: llamatest.TinyShape(), Context: 2048, BlockTokens: 16, Sessions: 2,
		Workers: []WorkerConfig{{"w1", "l1", 20e6}, {"w2", "l2", 20e6}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

// Real servers, real traffic: every path occurs, the server's counts confirm each
// (Run fails where they do not), the stages are parts of TTFT, and legs of every
// candidate run beside it and leave nothing.
func TestRealTraffic(t *testing.T) {
	f := started(t)
	ladder, err := f.Ladder(t.Context(), []int{64, 128, 256})
	require.NoError(t, err)
	require.Len(t, ladder, 3)
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	traffic := DefaultTraffic()
	traffic.Requests, traffic.Every, traffic.Affinity = 80, 10*time.Millisecond, 0.3
	parts, err := f.Run(t.Context(), traffic.Stream(), Options{
		Policy: "fetch-all", Tracer: provider.Tracer("t"),
		Decide: fleet.FetchAll(f.PredictBy(f.Prior(ladder)), fleet.Exploration{Share: 0.5, Salt: 1}),
	})
	require.NoError(t, err)
	require.Len(t, parts, 80)
	assert.Len(t, exporter.GetSpans(), 80)
	paths := map[schema.Path]int{}
	for i := range parts {
		checkPart(t, &parts[i])
		paths[parts[i].Decision.Path]++
	}
	for _, p := range []schema.Path{schema.PathFetch, schema.PathRecompute, schema.PathRoute, schema.PathResident} {
		assert.Positive(t, paths[p], "%s: %v", p, paths)
	}
	runLegs(t, f, parts)
	forgotten(t, f, provider.Tracer("t"))
}

// What was served before is of no use to a fleet that forgot it.
func forgotten(t *testing.T, f *Fleet, tracer trace.Tracer) {
	traffic := DefaultTraffic()
	traffic.Requests, traffic.Every = 1, time.Millisecond
	served := 0
	one := func() schema.Path {
		parts, err := f.Run(t.Context(), traffic.Stream(), Options{
			Policy: "fetch-all", Tracer: tracer, Decide: fleet.FetchAll(f.PredictBy(fleet.DefaultPrior()), fleet.Exploration{}),
			Served: func(p schema.Part) { served++; assert.NotZero(t, p.Span) },
		})
		require.NoError(t, err)
		return parts[0].Decision.Path
	}
	one()
	require.Equal(t, schema.PathResident, one())
	require.NoError(t, f.Forget())
	assert.Equal(t, schema.PathRecompute, one())
	assert.Equal(t, 3, served)
}

func checkPart(t *testing.T, p *schema.Part) {
	o, d := &p.Observed, &p.Decision
	c := d.Candidates[d.Chosen.V]
	assert.Equal(t, d.TokensPrompt.V, c.TokensResident+c.TokensFetched+c.TokensComputed)
	assert.GreaterOrEqual(t, o.Remainder().V, -1e-6, "%+v", *o)
	assert.Less(t, o.Remainder().V, 0.05, "%+v", *o)
	assert.Equal(t, d.Path == schema.PathFetch, o.Bytes.OK)
	assert.NotZero(t, p.Trace)
	sum := 0.0
	for _, c := range d.Candidates {
		sum += c.Propensity
		assert.False(t, math.IsNaN(c.TTFT), "%+v", c)
	}
	assert.InDelta(t, 1, sum, 1e-9)
	if o.Bytes.OK {
		assert.Equal(t, c.Bytes, o.Bytes.V)
	}
}

func runLegs(t *testing.T, f *Fleet, parts []schema.Part) {
	ex, err := f.Executor()
	require.NoError(t, err)
	ran := map[schema.Path]bool{}
	for i := len(parts) - 1; i >= 0; i-- {
		d := &parts[i].Decision
		for j, c := range d.Candidates {
			if ran[c.Path] {
				continue
			}
			ran[c.Path] = true
			leg := execute.Leg{
				ID: fmt.Sprintf("%032x", i*10+j), Path: c.Path, CandidateIndex: j, Candidate: c, Model: d.Model, Link: c.Links,
				TokensPrompt: d.TokensPrompt.V, TokensPrefix: d.TokensPrefix.V, PrefixBlocks: d.PrefixBlocks, Salt: "s",
			}
			_, err := ex.Prepare(t.Context(), leg)
			require.NoError(t, err, c.Path)
			r, err := ex.Run(t.Context(), leg)
			require.NoError(t, err, c.Path)
			assert.Positive(t, r.Observed.TTFT.V)
			if c.Path == schema.PathFetch {
				assert.InEpsilon(t, c.Bytes, r.Observed.Bytes.V, 0.001, "a leg moves what production moves")
			}
			require.NoError(t, ex.Cleanup(t.Context(), leg))
		}
	}
	assert.Len(t, ran, 4)
	for _, w := range f.workers {
		slots, err := w.server.Slots(t.Context())
		require.NoError(t, err)
		assert.Zero(t, slots[len(w.slots)].CachedTokens, "the replay slot")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	f := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	traffic := DefaultTraffic()
	provider := sdktrace.NewTracerProvider()
	_, err := f.Run(ctx, traffic.Stream(), Options{Policy: "p", Tracer: provider.Tracer("t"),
		Decide: fleet.Never(f.PredictBy(fleet.DefaultPrior()), fleet.Exploration{})})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}
