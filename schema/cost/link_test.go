package cost

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDrain(t *testing.T) {
	got := Drain(Link{B: 10}, []float64{30, 10, 20})
	assert.InDeltaSlice(t, []float64{6, 3, 5}, got, 1e-12)
	assert.InDeltaSlice(t, []float64{3}, Drain(Link{B: 10, B1: 5}, []float64{15}), 1e-12, "a flow's own limit")
}

// Under pure sharing the exact sum and the two fluid runs are one.
func TestExternalityIsTheFluidDifference(t *testing.T) {
	rng := seeded()
	for range trials {
		l := Link{B: 1e9 * (1 + 100*rng.Float64())}
		remaining := make([]float64, rng.IntN(30))
		for i := range remaining {
			remaining[i] = 1e9 * rng.ExpFloat64()
		}
		bytes := 1e9 * rng.ExpFloat64()
		want := Externality(bytes, remaining, l.B)
		require.InDelta(t, want, FluidExternality(l, bytes, remaining), 1e-9*(1+want))
	}
}

func TestFluidExternalityOfALossyLink(t *testing.T) {
	rng := seeded()
	for range trials {
		l := anyLink(rng)
		n := 1 + rng.IntN(20)
		remaining := make([]float64, n)
		mean := 1e9 * (0.1 + rng.Float64())
		for i := range remaining {
			remaining[i] = mean
		}
		bytes := 2e9 * rng.Float64()
		exact := FluidExternality(l, bytes, remaining)
		require.GreaterOrEqual(t, exact, -1e-9, "nobody gains by a newcomer")
		require.InDelta(t, exact, MeanExternality(l, bytes, float64(n), mean), 1e-9*(1+exact), "equal flows have a closed form")
		if pure := (Link{B: l.B}); l.B1 == 0 {
			require.GreaterOrEqual(t, exact, FluidExternality(pure, bytes, remaining)-1e-9, "loss only adds")
		}
	}
	limited := Link{B: 10, B1: 1}
	assert.Zero(t, FluidExternality(limited, 5, []float64{3, 4}), "flows at their own limit do not meet")
}

func TestComputeExternality(t *testing.T) {
	assert.InDelta(t, 2*0.2*(0.1+0.1)/0.5, ComputeExternality(0.2, 0.1, 2, 0.5), 1e-12)
	assert.True(t, math.IsInf(ComputeExternality(0.2, 0, 1, 1), 1))
	assert.InDelta(t, 6, DecodeExternality(10, 0.3, 2), 1e-12)
}

// ρ* is where the sum of delays is least. By load ρ, fetched bytes gain C·B/S − 1
// lone wire times each against recomputing, less the delay ρ/(1−ρ) of sharing:
// found here by a search that knows nothing of the formula.
func TestBestLoadIsTheOptimum(t *testing.T) {
	for _, kappa := range []float64{1.5, 2, 4, 9.3, 50, 400} {
		best, at := math.Inf(-1), 0.0
		for i := range 200_000 {
			rho := float64(i) / 200_000
			if gain := rho * (kappa - 1/(1-rho)); gain > best {
				best, at = gain, rho
			}
		}
		assert.InDelta(t, at, BestLoad(kappa), 1e-4, "κ = %v", kappa)
		assert.Greater(t, SelfishLoad(kappa), BestLoad(kappa), "selfish fetching goes too far")
		rho := SelfishLoad(kappa)
		assert.InDelta(t, kappa, 1/(1-rho), 1e-9, "where fetching gains nothing any more")
		marginal := 1 / ((1 - BestLoad(kappa)) * (1 - BestLoad(kappa)))
		assert.InDelta(t, kappa, marginal, 1e-9, "own time and toll of one more byte equal its gain")
	}
	assert.Zero(t, BestLoad(0.5))
	assert.Zero(t, SelfishLoad(0.5))
}

func TestPriceOf(t *testing.T) {
	const b, window = 10.0, 1.0
	fetch := Demand{Bytes: 1, Recompute: 0.4} // κ = 4, ρ* = 0.5
	many := func(n int, d Demand) (out []Demand) {
		for range n {
			out = append(out, d)
		}
		return out
	}
	for _, tc := range []struct {
		name   string
		demand []Demand
		load   float64
	}{
		{"less than the best load: all of it", many(3, fetch), 0.3},
		{"more: the best load", many(50, fetch), 0.5},
		{"not worth its wire time: none", many(50, Demand{Bytes: 1, Recompute: 0.05}), 0},
		{"what a recompute imposes counts", many(50, Demand{Bytes: 1, Recompute: 0.3, GPUExternality: 0.1}), 0.5},
		{"also alone", many(50, Demand{Bytes: 1, GPUExternality: 0.4}), 0.5},
		{"the worthy fill it before the others", append(many(50, fetch), many(7, Demand{Bytes: 1, Recompute: 10})...), 0.7},
		{"boundless worth is bounded", many(50, Demand{Bytes: 1, Recompute: math.Inf(1)}), MaxPriceLoad},
		{"no demand", nil, 0},
		{"demand that is none", []Demand{{Bytes: 0, Recompute: 1}, {Bytes: 1, Recompute: math.NaN()}}, 0},
	} {
		assert.InDelta(t, tc.load, PriceOf(tc.demand, b, window).Load, 1e-9, tc.name)
	}
	assert.InDelta(t, 1, PriceOf(many(3, fetch), b, window).MeanBytes, 1e-12)
	assert.Equal(t, Price{}, PriceOf(many(3, fetch), b, 0))
	assert.Equal(t, Price{}, PriceOf(many(3, fetch), 0, 1))
}

func TestExpectedFlows(t *testing.T) {
	p := Price{Load: 0.75, MeanBytes: 10} // c̄ = 3, Tr = 10/(10·0.25) = 4 s
	assert.InDelta(t, 3, p.Flows(), 1e-12)
	assert.InDelta(t, 4, p.RelaxSeconds(10), 1e-12)
	for _, tc := range []struct {
		name string
		view View
		want float64
	}{
		{"news is believed", View{Own: 1, Others: 7, Age: 0, Coordinators: 4}, 8},
		{"after Tr an e-th of it is left", View{Others: 7, Age: 4, Coordinators: 4}, 2.25 + 4.75/math.E},
		{"old news is the mean of the others' share", View{Own: 1, Others: 70, Age: 1e6, Coordinators: 4}, 1 + 2.25},
		{"never heard", View{Age: math.Inf(1), Coordinators: 4}, 2.25},
		{"one coordinator has no others", View{Own: 2, Others: 0, Age: 1e6, Coordinators: 1}, 2},
		{"no count is one", View{Own: 2, Age: 1e6}, 2},
	} {
		assert.InDelta(t, tc.want, p.ExpectedFlows(tc.view, 10), 1e-9, tc.name)
	}
}

func TestAdmit(t *testing.T) {
	p := Price{Load: 0.5, MeanBytes: 1}
	// S = 1, B = 10, ĉ = 1: wire 0.2, toll 1·2·0.5/(10·0.5) = 0.2
	assert.InDelta(t, 0.2, p.Toll(1, 1, 10), 1e-12)
	assert.True(t, p.Admit(1, 1, 10, 0, 0.41, 0))
	assert.False(t, p.Admit(1, 1, 10, 0, 0.39, 0))
	assert.True(t, p.Admit(1, 1, 10, 0, 0.3, 0.11), "what a recompute imposes")
	assert.True(t, p.Admit(1, 1, 10, 0.2, 0.21, 0), "the transfer hides behind the queue, the toll does not")
	assert.False(t, p.Admit(1, 1, 10, 0.2, 0.19, 0))
	rng := seeded()
	for range trials {
		q := Price{Load: 0.95 * rng.Float64(), MeanBytes: 1e9}
		s, c, r := 1e9*rng.ExpFloat64(), 20*rng.Float64(), rng.Float64()
		if q.Admit(s, c+1, 50e9, 0, r, 0) {
			require.True(t, q.Admit(s, c, 50e9, 0, r, 0), "fewer flows never turn a fetch down")
			require.True(t, q.Admit(s, c, 50e9, 0, r+0.1, 0), "nor does a dearer recompute")
		}
	}
}

func ExamplePriceOf() {
	// Ten fetches of 1 GiB a second, each of which saves 200 ms of computing, want
	// a 400 Gb/s link.
	demand := make([]Demand, 200)
	for i := range demand {
		demand[i] = Demand{Bytes: 1 << 30, Recompute: 0.2}
	}
	price := PriceOf(demand, 400e9/8, 20)
	fmt.Printf("ρ* = %.2f, %.2f flows\n", price.Load, price.Flows())
	// Output: ρ* = 0.21, 0.27 flows
}
