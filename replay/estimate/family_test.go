package estimate

import (
	"math"
	"testing"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFamilyIsWiderThanEachAlone: together they hold less often than one alone,
// so each must be wider; one slice alone needs no widening.
func TestFamilyIsWiderThanEachAlone(t *testing.T) {
	in, _ := ordinary(41).draw()
	sizes := 0
	for _, s := range Estimate(in, Options{}).Slices {
		if !s.Pair.Known {
			assert.True(t, math.IsNaN(s.Family.Lo), "unknown has no interval")
			continue
		}
		if s.Dimension == "size" {
			sizes++
			assert.Less(t, s.Family.Lo, s.Pair.Window.Lo)
			assert.Greater(t, s.Family.Hi, s.Pair.Window.Hi)
		}
	}
	assert.Greater(t, sizes, 1)
}

// TestRegretFindsWhatARuleWouldGain: choosing the faster path by size and load
// gains what the truth says; where nothing is to be gained none is found.
func TestRegretFindsWhatARuleWouldGain(t *testing.T) {
	in, truth := ordinary(42).draw()
	r := Estimate(in, Options{}).Regret
	require.True(t, r.Known, r.Why)
	assert.Greater(t, r.Value, math.Max(0, -truth)*0.8, "at least what one rule for all would gain")
	assert.Greater(t, r.Moved, 0.0)
	assert.Less(t, r.Moved, 1.0)
	assert.True(t, r.Window.Lo < r.Value && r.Value < r.Window.Hi)

	for i := range in.Decisions { // recomputing is far worse for all: nothing to gain
		d := &in.Decisions[i]
		d.Model[schema.PathRecompute] += 10
		if d.Path == schema.PathRecompute {
			d.Y += 10
		}
	}
	for i := range in.Legs {
		in.Legs[i].Y += 10
	}
	r = Estimate(in, Options{}).Regret
	require.True(t, r.Known, r.Why)
	assert.Zero(t, r.Value)
	assert.Zero(t, r.Moved)
}

// TestRegretRefuses: no pair known, too few blocks, most requests without a pair.
func TestRegretRefuses(t *testing.T) {
	in, _ := ordinary(43).draw()
	none := in
	none.Legs = nil
	r := Estimate(none, Options{}).Regret
	assert.False(t, r.Known)
	assert.Contains(t, r.Why, "no ordered pair of paths is known")
	assert.True(t, math.IsNaN(r.Value))
	assert.Equal(t, 1.0, r.UnknownShare())

	for i := range in.Decisions {
		in.Decisions[i].Block /= 10
	}
	assert.Contains(t, Estimate(in, Options{}).Regret.Why, "2 blocks of time")
	assert.Contains(t, Estimate(in, Options{MaxUnknown: 0.01, MinBlocks: 1}).Regret.Why, "nothing is known of")
}

// TestExactSequenceIsHonestAboutItsWidth: it holds, and at the rates of production
// its range is so wide that it says nothing; where every request has a leg it does.
func TestExactSequenceIsHonestAboutItsWidth(t *testing.T) {
	w := ordinary(44)
	in, _ := w.draw()
	assert.True(t, math.IsNaN(only(in, Options{}).Exact.Lo), "needs a clip chosen before")
	wide := only(in, Options{Clip: 4}).Exact
	assert.Greater(t, wide.Hi-wide.Lo, 10.0, "seconds: useless")
	w.rate, w.controls, w.fails, w.n, w.blocks = 1, 1, 0, 20000, 200
	in, truth := w.draw()
	p := only(in, Options{Clip: 4, MinRate: 1, MinCompletion: 1})
	require.True(t, p.Known, p.Why)
	assert.Less(t, p.Exact.Hi-p.Exact.Lo, 0.8)
	assert.True(t, p.Exact.Lo < truth && truth < p.Exact.Hi)
}

// TestPublishedParetoK: generalised Pareto fits to samples whose shape is known.
// The quantiles of a GPD(k, σ) are x = σ((1−u)^−k − 1)/k; with n of them at
// u = (i − ½)/n the estimate is within a few hundredths of k, as Zhang and
// Stephens (2009) report for their estimator from k = −0.25 (bounded) to 1.
func TestPublishedParetoK(t *testing.T) {
	for _, k := range []float64{-0.25, 0.1, 0.5, 0.7, 1} {
		for _, sigma := range []float64{1e-3, 1, 40} {
			x := make([]float64, 500)
			for i := range x {
				x[i] = sigma * (math.Pow(1-(float64(i)+0.5)/500, -k) - 1) / k
			}
			assert.InDelta(t, k, generalisedPareto(x), 0.03, "k %v, σ %v", k, sigma)
		}
	}
	// Vehtari et al. (2024), appendix: (n·k + 10·0.5)/(n + 10).
	assert.InDelta(t, (100*0.8+5)/110.0, shrinkTail(0.8, 100), 1e-12)
}

// TestHorvitzThompson holds the draw's part of the variance to the textbook's
// (Särndal, Swensson and Wretman 1992, eq. 2.8.7 for Poisson sampling):
// Σ R (1−π)/π² y², here of e = ỹ* − δ − m, over N².
func TestHorvitzThompson(t *testing.T) {
	pi, e := []float64{0.5, 0.25, 0.8}, []float64{2, 2, 2} // equal e: no noise term
	s := population{to: schema.PathRecompute, delta: delta{batches: map[string]float64{}}}
	want := 0.0
	for i := range pi {
		d := &Decision{}
		s.rows = append(s.rows, row{request: &request{Decision: d}, weight: 1 / pi[i], carried: e[i], batch: string(rune('a' + i))})
		want += (1 - pi[i]) / (pi[i] * pi[i]) * e[i] * e[i] / 9
	}
	draw, _, _ := s.windowVariance()
	assert.InDelta(t, want, draw, 1e-12)
}

// TestIntervalsThatNeedMoreAreSilent: an interval of the next hour needs blocks of
// time, a sequence its burn-in; the others stay.
func TestIntervalsThatNeedMoreAreSilent(t *testing.T) {
	w := ordinary(45)
	w.blocks = 4
	in, _ := w.draw()
	p := only(in, Options{BurnIn: 5000})
	require.True(t, p.Known, p.Why)
	assert.True(t, math.IsNaN(p.NextHour.Lo), "4 blocks")
	assert.True(t, math.IsNaN(p.Always.Lo), "before the burn-in")
	assert.False(t, math.IsNaN(p.Window.Lo))
}
