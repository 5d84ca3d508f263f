package cost

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const trials = 500

func seeded() *rand.Rand { return rand.New(rand.NewPCG(11, 12)) }

func anyLink(rng *rand.Rand) Link {
	l := Link{B: 1e9 * (1 + 100*rng.Float64()), Gamma: rng.Float64() * 0.3}
	if rng.IntN(2) == 0 {
		l.B1 = l.B * (0.1 + 0.9*rng.Float64())
	}
	return l
}

func TestMoreCostsMore(t *testing.T) {
	rng := seeded()
	for range trials {
		p := Prefill{C0: rng.Float64(), C1: rng.Float64(), C2: rng.Float64(), Chunk: float64(rng.IntN(3) * 512)}
		n, m := 1+1e4*rng.Float64(), 1e4*rng.Float64()
		require.GreaterOrEqual(t, p.Seconds(n+1, m), p.Seconds(n, m), "more tokens")
		require.GreaterOrEqual(t, p.Seconds(n, m+1), p.Seconds(n, m), "a longer context")

		tr := Transfer{T0: rng.Float64(), Bend: rng.Float64() * 0.5, Link: anyLink(rng)}
		bytes, flows := 1e6+1e10*rng.Float64(), 1+30*rng.Float64()
		require.Greater(t, tr.Seconds(bytes*1.01, flows), tr.Seconds(bytes, flows), "more bytes")
		require.GreaterOrEqual(t, tr.Seconds(bytes, flows+1), tr.Seconds(bytes, flows), "more sharers")
		require.GreaterOrEqual(t, Restore{D0: 1, D1: 1e-9}.Seconds(bytes+1), Restore{D0: 1, D1: 1e-9}.Seconds(bytes))
	}
}

// Two prefills in a row cost what one does, where no chunk is started anew.
func TestPrefillAdds(t *testing.T) {
	p := Prefill{C1: 2e-5, C2: 1e-9}
	assert.InDelta(t, p.Seconds(8000, 0), p.Seconds(3000, 0)+p.Seconds(5000, 3000), 1e-12)
	c := Prefill{C0: 1, Chunk: 512}
	for n, want := range map[float64]float64{0: 0, 1: 1, 512: 1, 513: 2, 1024: 2} {
		assert.InDelta(t, want, c.Seconds(n, 7), 0, "%v tokens", n)
	}
	assert.InDelta(t, 1, Prefill{C0: 1}.Seconds(1e6, 0), 0, "one chunk whatever the size")
}

func TestNothingCostsNothing(t *testing.T) {
	assert.Zero(t, Prefill{C0: 1, C1: 1, C2: 1}.Seconds(0, 100))
	assert.Zero(t, Transfer{T0: 1, Link: Link{B: 1}}.Seconds(0, 3))
	assert.Zero(t, Restore{D0: 1}.Seconds(0))
	assert.Zero(t, MeanExternality(Link{B: 1}, 0, 3, 1))
	assert.Zero(t, MeanExternality(Link{B: 1}, 3, 0, 1))
}

func TestBendKeepsItsPivot(t *testing.T) {
	for _, bend := range []float64{0, 0.04, 0.3} {
		tr := Transfer{Bend: bend}
		assert.InDelta(t, BendBytes, tr.WireBytes(BendBytes), 1e-3)
		assert.GreaterOrEqual(t, tr.WireBytes(1e6), 1e6, "small transfers count for more")
		assert.LessOrEqual(t, tr.WireBytes(1e11), 1e11+1)
	}
}

// The stages sum to TTFT, and TTFT is the formula of a fetch.
func TestStagesSum(t *testing.T) {
	rng := seeded()
	for range trials {
		p := Path{Hop: rng.Float64(), GPUQueue: rng.Float64(), TransferQueue: rng.Float64(), Transfer: rng.Float64(),
			Restore: rng.Float64(), Prefill: rng.Float64(), Omega: rng.Float64()}
		x := p.TransferQueue + p.Transfer
		want := p.Hop + math.Max(p.GPUQueue, x) + p.Omega*math.Min(p.GPUQueue, x) + p.Restore + p.Prefill
		require.InDelta(t, want, p.TTFT(), 1e-12)
		require.InDelta(t, p.TTFT(), p.Hop+p.GPUQueue+p.ExposedStall()+p.Restore+p.Prefill, 1e-12)
		require.GreaterOrEqual(t, p.ExposedStall(), 0.0)
		require.LessOrEqual(t, p.ExposedStall(), x+1e-12, "never more than the transfer took")
	}
	assert.InDelta(t, 3, Path{GPUQueue: 1, Prefill: 2}.TTFT(), 0, "nothing to fetch")
}

func TestNaNIsNotHidden(t *testing.T) {
	nan := math.NaN()
	assert.True(t, math.IsNaN(Path{GPUQueue: nan, Prefill: 1}.TTFT()))
	assert.True(t, math.IsNaN(Path{GPUQueue: 1, Transfer: nan}.TTFT()))
	assert.True(t, math.IsNaN(Link{B: nan}.FlowRate(2)))
	assert.False(t, SeedInput{Bytes: nan, Bandwidth: 1}.FetchLoses())
}

// Streaming with every layer there at once is a plain restore and prefill; with
// all layers late it is their arrival.
func TestStream(t *testing.T) {
	at, d, c := []float64{0, 0, 0}, []float64{0, 0, 0}, []float64{1, 2, 3}
	assert.Equal(t, Layers{TTFT: 7, Stall: 0}, Stream(1, at, d, c))
	got := Stream(1, []float64{2, 3, 10}, []float64{0.5, 0.5, 0.5}, c)
	// d = 2.5, 3.5, 10.5; F = 3.5, 5.5, 13.5
	assert.InDelta(t, 13.5, got.TTFT, 1e-12)
	assert.InDelta(t, 1.5+0+5, got.Stall, 1e-12)
	assert.Equal(t, Layers{TTFT: 4}, Stream(4, nil, nil, nil))

	rng := seeded()
	for range trials {
		n := 1 + rng.IntN(40)
		at, d, c := make([]float64, n), make([]float64, n), make([]float64, n)
		arrived, restore, compute := 0.0, 0.0, 0.0
		for l := range n {
			arrived += rng.Float64()
			at[l], d[l], c[l] = arrived, rng.Float64()*0.1, rng.Float64()
			restore, compute = restore+d[l], compute+c[l]
		}
		queue := rng.Float64() * 5
		s := Stream(queue, at, d, c)
		require.InDelta(t, queue+s.Stall+compute, s.TTFT, 1e-9, "queue, stalls and compute are all of it")
		whole := Path{GPUQueue: queue, Transfer: arrived, Restore: restore, Prefill: compute}
		require.LessOrEqual(t, s.TTFT, whole.TTFT()+1e-9, "streaming is never slower than waiting for the whole")
	}
}

const gib, gb400 = 1 << 30, 400e9 / 8

func TestSeedFigures(t *testing.T) {
	rows := Rule(RuleInput{Bytes: gib, Law: Transfer{Link: Link{B: gb400}}, Recompute: 0.2, Sharers: []float64{1, 8, 9, 16}})
	assert.Equal(t, "21.5 ms", millis(rows[0].Wire))
	assert.Equal(t, "344 ms", millis(rows[3].Wire))
	for i, want := range []string{"fetch", "fetch", "fetch", "recompute"} {
		assert.Equal(t, want, rows[i].Winner)
		assert.NotEmpty(t, rows[i].Why)
	}
	assert.InDelta(t, 15*gib/gb400, rows[3].Imposed, 1e-9, "each of fifteen others by one more share")
}

func TestRuleSaysWhy(t *testing.T) {
	law := Transfer{Link: Link{B: gb400}}
	for _, tc := range []struct {
		in           RuleInput
		winner, says string
	}{
		{RuleInput{Bytes: gib, Law: law, Recompute: 0.2, GPUQueue: 0.5}, "fetch", "waits 500 ms for the GPU"},
		{RuleInput{Bytes: gib, Law: law, Recompute: 0.2}, "fetch", "replaces 200 ms"},
		{RuleInput{Bytes: gib, Law: law, Recompute: 0.2, Restore: 0.3}, "recompute", "restoring 300 ms"},
		{RuleInput{Bytes: gib, Law: law, Recompute: 0.2, TransferQueue: 0.3}, "recompute", "first byte"},
		{RuleInput{Bytes: gib, Law: law, Recompute: math.NaN()}, "unknown", "missing"},
	} {
		tc.in.Sharers = []float64{1}
		got := Rule(tc.in)[0]
		assert.Equal(t, tc.winner, got.Winner)
		assert.Contains(t, got.Why, tc.says)
	}
}

func ExampleRule() {
	for _, r := range Rule(RuleInput{
		Bytes: 1 << 30, Law: Transfer{Link: Link{B: 400e9 / 8}}, Recompute: 0.2, Sharers: []float64{1, 16},
	}) {
		fmt.Printf("%2.0f sharers: %.1f ms on the wire: %s\n", r.Sharers, 1e3*r.Wire, r.Winner)
	}
	// Output:
	//  1 sharers: 21.5 ms on the wire: fetch
	// 16 sharers: 343.6 ms on the wire: recompute
}

func ExamplePath() {
	p := Path{GPUQueue: 0.05, TransferQueue: 0.01, Transfer: 0.09, Restore: 0.02, Prefill: 0.03}
	fmt.Printf("stall %.2f s, TTFT %.2f s\n", p.ExposedStall(), p.TTFT())
	// Output: stall 0.05 s, TTFT 0.15 s
}
