package estimate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
)

// recomputes moves every fetched request that keep names to a recompute.
func recomputes(in Input, keep func(*Decision) bool) map[schema.RowID]schema.Path {
	to := map[schema.RowID]schema.Path{}
	for i := range in.Decisions {
		if d := &in.Decisions[i]; d.Path == schema.PathFetch && keep(d) {
			to[d.ID] = schema.PathRecompute
		}
	}
	return to
}

// TestValueOfWhatWasDone is the mean outcome, without any doubt.
func TestValueOfWhatWasDone(t *testing.T) {
	in, _ := ordinary(1).draw()
	v := NewTarget(in, Options{}, nil).Value(nil)
	mean := 0.0
	for _, d := range in.Decisions {
		mean += d.Y / float64(len(in.Decisions))
	}
	require.True(t, v.Known, v.Why)
	assert.InDelta(t, mean, v.Value, 1e-12)
	assert.Equal(t, []int{len(in.Decisions), 0, 0}, []int{v.N, v.Moved, v.Unknown})
	assert.Zero(t, v.Change)
	assert.Zero(t, v.Window.SE)
	assert.Positive(t, v.NextHour.SE)
}

// TestValueIsWeightedPairs: where all of a pair moves, the change is its θ times its
// share.
func TestValueIsWeightedPairs(t *testing.T) {
	in, _ := ordinary(2).draw()
	v := NewTarget(in, Options{}, recomputes(in, func(*Decision) bool { return true })).Value(nil)
	require.True(t, v.Known, v.Why)
	for _, p := range Estimate(in, Options{}).Pairs {
		if p.From == schema.PathFetch {
			assert.InDelta(t, p.Theta*float64(p.N)/float64(v.N), v.Change, 1e-12)
			assert.InDelta(t, p.Window.SE*float64(p.N)/float64(v.N), v.ChangeIn.SE, 1e-12)
		}
	}
	assert.InDelta(t, v.Value, v.Logged+v.Change, 1e-12)
}

// TestValueCoversTheTruth: of a policy that moves large prefixes only.
func TestValueCoversTheTruth(t *testing.T) {
	large := func(d *Decision) bool { return d.Slice.Size >= 2 }
	covered, known, runs := 0, 0, 60
	for seed := range uint64(runs) {
		w := ordinary(seed + 100)
		w.modelScale = 0.7
		in, _ := w.draw()
		truth := w.policyTruth(large)
		v := NewTarget(in, Options{}, recomputes(in, large)).Value(nil)
		if !v.Known { // δ seems to differ between sizes, as it will by chance once in a hundred
			continue
		}
		known++
		if v.Window.Lo <= truth && truth <= v.Window.Hi {
			covered++
		}
	}
	assert.GreaterOrEqual(t, known, 56)
	assert.GreaterOrEqual(t, covered, known-8, "of some 60 intervals of 95 %")
}

// policyTruth draws the world once more, and takes the recompute of what keep moves.
func (w world) policyTruth(keep func(*Decision) bool) float64 {
	r, sum, weather := w.rng(), 0.0, 0.0
	for i := range w.n {
		block := i * w.blocks / w.n
		if i == 0 || block != (i-1)*w.blocks/w.n {
			_, weather = r.NormFloat64()*w.batchNoise, 6*r.Float64()
		}
		d, recompute, queue := w.decision(r, i, block, weather)
		if d.Path == schema.PathFetch && keep(d) {
			sum += recompute / float64(w.n)
		} else {
			sum += d.Y / float64(w.n)
		}
		w.legs(r, &Input{}, d, recompute, queue, 0)
	}
	return sum
}

func TestValueOfSlices(t *testing.T) {
	in, _ := ordinary(3).draw()
	target := NewTarget(in, Options{}, recomputes(in, func(*Decision) bool { return true }))
	whole, sum := target.Value(nil), 0.0
	for size := range 4 {
		v := target.Value(func(d *Decision) bool { return d.Slice.Size == size })
		require.True(t, v.Known, v.Why)
		sum += v.Change * float64(v.N) / float64(whole.N)
	}
	assert.InDelta(t, whole.Change, sum, 3*whole.ChangeIn.SE)
}

func TestValueRefuses(t *testing.T) {
	in, _ := ordinary(4).draw()
	to := recomputes(in, func(*Decision) bool { return true })
	none := NewTarget(Input{Decisions: in.Decisions}, Options{}, to).Value(nil)
	assert.False(t, none.Known)
	assert.Contains(t, none.Why, "from fetch to recompute")
	assert.True(t, math.IsNaN(none.Value) && math.IsNaN(none.Change))
	assert.Equal(t, 1.0, none.UnknownShare())
	few := recomputes(in, func(d *Decision) bool { return d.ID[0] < 24 }) // a tenth: what stays must not answer for it
	some := NewTarget(Input{Decisions: in.Decisions}, Options{}, few).Value(nil)
	assert.False(t, some.Known)
	assert.Contains(t, some.Why, "it would run another way")
	assert.Equal(t, len(few), some.Stuck)
	assert.Contains(t, NewTarget(Input{}, Options{}, nil).Value(nil).Why, "no request")

	for id := range to {
		to[id] = schema.PathRoute // nobody has that candidate
	}
	nowhere := NewTarget(in, Options{}, to).Value(nil)
	assert.False(t, nowhere.Known)
	assert.Contains(t, nowhere.Why, "had a candidate to route")
}
