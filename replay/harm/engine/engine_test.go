package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// draw makes pairs of blocks whose requests share a stream, slowed down by what
// others took of the machine and by noise, and harm in the second block of each.
func draw(rng *rand.Rand, pairs, requests int, harm float64) []pair {
	out := make([]pair, pairs)
	for i := range out {
		stream := make([]float64, requests)
		for j := range stream {
			stream[j] = 0.1 * math.Exp(0.7*rng.NormFloat64())
		}
		for k := range 2 {
			out[i].waited[k] = 0.6 * rng.Float64()
			block := math.Exp(0.08*rng.NormFloat64()) * math.Pow(1-out[i].waited[k], -1.5)
			for _, x := range stream {
				out[i].ttft[k] = append(out[i].ttft[k], x*block*math.Exp(0.1*rng.NormFloat64())*(1+harm*float64(k)))
			}
		}
	}
	return out
}

// TestCompareCovers: over many worlds the intervals hold what was planted some 95
// times in a hundred, and so do the one-sided bounds; adjusted ones are shorter.
func TestCompareCovers(t *testing.T) {
	const worlds = 120
	for _, harm := range []float64{0, 0.08} {
		var width [2]float64
		for a, adjusted := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(1, 2))
			var within, below [2]int
			for range worlds {
				mean, p90 := compareBy(draw(rng, 40, 10, harm), adjusted, rng.Uint64(), 100)
				for i, r := range []Ratio{mean, p90} {
					width[a] += r.High - r.Low
					if r.Low <= 1+harm && 1+harm <= r.High {
						within[i]++
					}
					if 1+harm <= r.Upper {
						below[i]++
					}
				}
			}
			for i, name := range []string{"mean", "p90"} {
				assert.GreaterOrEqual(t, within[i], worlds*88/100, "%s, harm %v, adjusted %v", name, harm, adjusted)
				assert.GreaterOrEqual(t, below[i], worlds*88/100, "%s, harm %v, adjusted %v", name, harm, adjusted)
				assert.Less(t, below[i], worlds, "%s, harm %v: a bound that is never too low says nothing", name, harm)
			}
		}
		assert.Less(t, width[1], 0.6*width[0], "what others took explains most of the noise")
	}
}

func TestCompareCounts(t *testing.T) {
	pairs := []pair{
		{ttft: [2][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {2, 4, 6, 8, 10, 12, 14, 16, 18, 20}}},
		{ttft: [2][]float64{{1, 1}, {2, 2}}},
	}
	for _, adjusted := range []bool{false, true} { // the loads are equal: nothing to adjust for
		mean, p90 := compare(pairs, adjusted, 1)
		assert.InDelta(t, 2, mean.Ratio, 1e-9)
		assert.InDelta(t, 2, p90.Ratio, 1e-9)
		assert.InDelta(t, 2, mean.Upper, 1e-9, "each pair has the same ratio")
	}
	s := sideOf(pairs, 0)
	assert.Equal(t, 9.0, s.quantile(0.9, []int{1, 0}))
	assert.Equal(t, 1.0, s.quantile(0.9, []int{0, 3}))
	assert.InDelta(t, (55.0+4)/14, s.mean([]int{1, 2}), 1e-12)
}

func TestArrange(t *testing.T) {
	blocks := []Block{
		{Pair: 0, With: true, TTFT: []float64{3}, Beside: []bool{true}}, {Pair: 0, TTFT: []float64{1}, Beside: []bool{false}},
		{Pair: 1, TTFT: []float64{2}, Beside: []bool{false}}, {Pair: 1, With: true, TTFT: []float64{9}, Beside: []bool{true}, Waited: 0.6},
	}
	pairs, without := arrange(blocks, 2)
	assert.Equal(t, []pair{{ttft: [2][]float64{{1}, {3}}}, {ttft: [2][]float64{{2}, {9}}, waited: [2]float64{0, 0.6}}}, pairs)
	assert.Equal(t, []pair{{ttft: [2][]float64{{1}, {2}}}}, without)
	b := besideOf(blocks, pairs) // 2 s more and 7 s more, of 3 s
	assert.Equal(t, Beside{Requests: 2, Met: 2, Blocks: 2, Ratio: 4, Upper: b.Upper}, b)
	assert.InDelta(t, 4+6.3138*5/3, b.Upper, 1e-3, "t of one degree of freedom")
}

// The few after a request that met a leg count, those before it do not.
func TestBesideTakesThoseThatFollow(t *testing.T) {
	met := make([]bool, 8)
	met[2] = true
	blocks := []Block{{TTFT: []float64{1, 1, 1, 1, 1, 1, 1, 1}}, {With: true, TTFT: []float64{9, 9, 2, 2, 2, 2, 9, 9}, Beside: met}}
	pairs, _ := arrange(blocks, 1)
	assert.Equal(t, Beside{Requests: 4, Met: 1, Blocks: 1, Ratio: 1.5}, besideOf(blocks, pairs))
}

// A pair is undisturbed where both of its blocks were.
func TestUndisturbed(t *testing.T) {
	var blocks []Block
	for i := range 8 {
		blocks = append(blocks, Block{Pair: i, TTFT: []float64{1, 2}, Waited: 0.1},
			Block{Pair: i, With: true, TTFT: []float64{2, 4}, Beside: []bool{true, false}, Waited: 0.1 * float64(i)})
	}
	pairs, _ := arrange(blocks, 8)
	u := undisturbedOf(blocks, pairs, 1)
	require.NotNil(t, u)
	assert.Equal(t, []int{6, 6, 6}, []int{u.Mean.Pairs, u.P90.Pairs, u.Met})
	assert.InDelta(t, 2, u.Mean.Ratio, 1e-12)
	blocks[0].Waited = 0.9
	pairs, _ = arrange(blocks, 8)
	assert.Nil(t, undisturbedOf(blocks, pairs, 1), "too few")
}

// Requests meet a leg where it has their worker while they are under way.
func TestBesideIsOfTheWorkerAndTheTime(t *testing.T) {
	began := time.Now()
	begin, end := began.UnixNano(), int64(50)
	spans := []span{{"w1", began, began.Add(50)}}
	part := func(worker string, from, to int64) schema.Part {
		p := schema.Part{StartNanos: begin + from, EndNanos: begin + to}
		p.Decision.Worker, p.Observed.TTFT, p.Observed.Prefill = worker, schema.Some(1.0), schema.Some(0.5)
		return p
	}
	var b Block
	b.take([]schema.Part{part("w1", -9, -5), part("w1", -9, 0), part("w2", -9, 9), part("w1", end, end+5), part("w1", end+1, end+5)}, spans)
	assert.Equal(t, []bool{false, true, false, true, false}, b.Beside)
	assert.InDelta(t, 2.5, b.GPU, 1e-12)
}

// A shut gate runs nothing, and what waits may come again.
func TestShutGateRunsNothing(t *testing.T) {
	g := newGate(nil)
	s, err := g.State(t.Context(), execute.Leg{})
	require.NoError(t, err)
	assert.True(t, math.IsInf(s.GPUQueue, 1))
	_, err = g.Prepare(t.Context(), execute.Leg{ID: "a"})
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	_, err = g.Run(t.Context(), execute.Leg{ID: "a"})
	assert.ErrorIs(t, err, execute.ErrUnavailable)
	require.NoError(t, g.rest(t.Context()))
	g.active["b"] = time.Now()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	assert.ErrorIs(t, g.rest(ctx), context.Canceled)
}

func TestSettings(t *testing.T) {
	s := Default()
	require.NoError(t, s.validate())
	assert.GreaterOrEqual(t, s.Pairs*s.Traffic.Requests, 1800)
	for _, change := range []func(*Settings){
		func(s *Settings) { s.Pairs = 2 }, func(s *Settings) { s.Pairs = 5 }, func(s *Settings) { s.Traffic.Requests = 0 },
	} {
		bad := s
		change(&bad)
		assert.ErrorContains(t, bad.validate(), "even number of pairs")
	}
	traffic := s.Traffic
	traffic.Requests, traffic.Seed = 2000, 3
	for _, r := range traffic.Stream() {
		n := len(r.Blocks)*s.Fleet.BlockTokens + r.Suffix
		assert.LessOrEqual(t, n+r.Generate, s.Fleet.Context)
	}
}

func TestPrint(t *testing.T) {
	r := Result{Without: Arm{Requests: 1800, Mean: 0.1}, Ratios: Ratios{Mean: Ratio{1.01, 0.98, 1.04, 1.035, 72}}, Legs: 12, GPUShare: 0.01}
	var b strings.Builder
	require.NoError(t, r.Print(&b))
	assert.Contains(t, b.String(), "1.0100   0.9800 to 1.0400")
	assert.Contains(t, b.String(), "12 legs ran")
}

// Where nobody knows what others took of the machine, nothing is adjusted for it.
func TestWaitedIsKnownOrNot(t *testing.T) {
	blocks := []Block{{Waited: 0.3}, {Waited: 0.1}, {Waited: 0.2}}
	assert.Equal(t, 0.2, waited(blocks))
	blocks[1].Waited = -1
	assert.Equal(t, -1.0, waited(blocks))
}
