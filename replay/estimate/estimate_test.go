package estimate

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// trap is the case in which a plausible correction turns the sign: a fetch took
// 344 ms and its quiet control 21.5; recomputing truly takes 300 with a queue of
// 100, and its quiet replay 200.
func trap() Input {
	var in Input
	for i := range 200 {
		d := Decision{Block: int64(i / 20), Path: schema.PathFetch, Alternative: schema.PathRecompute, Y: 0.344, Stratum: "s"}
		d.ID[0], d.Model = byte(i), [NumPaths]float64{math.NaN(), 0.344, 0.290, math.NaN(), math.NaN()}
		l := Leg{Of: d.ID, Path: schema.PathRecompute, Kind: schema.LegRejected, Y: 0.2, ModelDecision: 0.3, ModelReplay: 0.2, Inclusion: 0.5, Batch: "b"}
		c := Leg{Of: d.ID, Path: schema.PathFetch, Kind: schema.LegControl, Y: 0.0215, ModelDecision: 0.344, ModelReplay: 0.0215, Inclusion: 0.5, Batch: "b"}
		if i%4 == 0 { // chose recompute: the control leg is of path b
			d.Path, d.Alternative, d.Y = schema.PathRecompute, schema.PathFetch, 0.3
			c.Path, c.Y, c.ModelDecision, c.ModelReplay = schema.PathRecompute, 0.2, 0.3, 0.2
		}
		if i%2 == 0 {
			d.Intended[c.Path] = 1
			in.Legs = append(in.Legs, c)
		}
		if i%8 < 4 && i%4 > 0 { // 75 of the 150 fetched
			d.Intended[l.Path] = 1
			in.Legs = append(in.Legs, l)
		}
		in.Decisions = append(in.Decisions, d)
	}
	return in
}

func TestTheCorrectionIsOfThePathThatRan(t *testing.T) {
	in := trap()
	p := Estimate(in, Options{NoRecalibration: true}).Verdict.Pair
	require.True(t, p.Known, p.Why)

	wrong := p.Naive // minus (control − original) of the path that was chosen
	for _, l := range in.Legs {
		if l.Kind == schema.LegControl && l.Path == schema.PathFetch {
			wrong -= l.Y - 0.344
			break
		}
	}
	assert.InDelta(t, -0.144, p.Naive, 1e-12)
	assert.InDelta(t, 0.1785, wrong, 1e-12, "the wrong correction says that fetching helped")
	assert.InDelta(t, -0.044, p.SNIPW, 1e-12)
	assert.InDelta(t, 0, p.Delta, 1e-12)
	assert.InDelta(t, -0.044, p.Theta, 1e-12)
	assert.True(t, p.Window.Lo < -0.044 && -0.044 < p.Window.Hi && p.Window.Hi < 0, "%+v", p.Window)
	assert.Equal(t, Hurting, Estimate(in, Options{}).Verdict.State)
}

// TestCoverageAndBias holds the estimator to its promises over worlds whose
// truth is known.
func TestCoverageAndBias(t *testing.T) {
	cases := map[string]func(*world){
		"ordinary":       func(*world) {},
		"batch noise":    func(w *world) { w.batchNoise = 0.1; w.n = 4000; w.blocks = 40 },
		"every leg runs": func(w *world) { w.rate, w.controls, w.fails = 1, 1, 0 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			var known, covered, always, bias, naive, chosen float64
			for seed := range uint64(coverageWorlds) {
				w := ordinary(seed)
				change(&w)
				in, truth := w.draw()
				p := only(in, Options{Level: 0.9})
				if !p.Known { // δ seems to differ, as it will by chance
					continue
				}
				known++
				covered += within(p.Window, truth)
				always += within(p.Always, truth)
				bias += p.Theta - truth
				naive += p.Naive - truth
				chosen += p.MeanChosen
			}
			t.Logf("90 %% intervals covered %.1f %%, the sequence %.1f %%; bias of mean chosen TTFT: AIPW %.2f %%, naive %.1f %%",
				100*covered/known, 100*always/known, 100*bias/chosen, 100*naive/chosen)
			assert.Greater(t, known/coverageWorlds, 0.97, "refused without need")
			assert.Greater(t, covered/known, 0.9-3*math.Sqrt(0.9*0.1/known), "coverage")
			assert.Greater(t, always/known, 0.9)
			assert.Less(t, math.Abs(bias/chosen), 0.02)
			assert.Greater(t, math.Abs(naive/chosen), 0.10, "the world is too easy to tell estimators apart")
		})
	}
}

// TestIntervalsAreNotIdle: an interval that always covers would be too wide.
func TestIntervalsAreNotIdle(t *testing.T) {
	var squares, claimed float64
	for seed := range uint64(coverageWorlds) {
		in, truth := ordinary(seed).draw()
		p := only(in, Options{})
		if !p.Known {
			continue
		}
		squares += (p.Theta - truth) * (p.Theta - truth)
		claimed += p.Window.SE * p.Window.SE
	}
	assert.InDelta(t, 1, math.Sqrt(claimed/squares), 0.2, "standard error against what it is of")
}

// only is the headline's pair, without the slices.
func only(in Input, opt Options) Pair {
	ix := newIndex(in, opt)
	p, _ := ix.pair(ix.requests, schema.PathFetch, schema.PathRecompute, ix.recalibrated(schema.PathFetch, schema.PathRecompute))
	return p
}

// TestLegsThatHaveNotRunYet: where the legs of the latest decisions still wait,
// those decisions are unknown, and the estimate is of the others, although the
// completion over the whole window would pass.
func TestLegsThatHaveNotRunYet(t *testing.T) {
	var squares, claimed, pooled float64
	const worlds = 40
	for seed := range uint64(worlds) {
		w := ordinary(seed)
		w.late = 2
		in, _ := w.draw()
		p := only(in, Options{MaxUnknown: 0.5})
		require.True(t, p.Known, p.Why)
		assert.InDelta(t, 0.1, p.UnknownShare(), 0.05)
		early := ordinary(seed)
		early.late, early.earlyOnly = 2, true
		_, truth := early.draw()
		_, all := w.draw()
		squares += (p.Theta - truth) * (p.Theta - truth)
		claimed += p.Window.SE * p.Window.SE
		pooled += math.Abs(all-truth) / worlds
	}
	assert.Greater(t, pooled, 0.01, "the late requests are of another kind")
	assert.Less(t, math.Sqrt(squares/worlds), 0.006, "so they must not be spoken for")
	assert.InDelta(t, 1, math.Sqrt(claimed/squares), 0.35)
}

func within(i Interval, truth float64) float64 {
	if i.Lo <= truth && truth <= i.Hi {
		return 1
	}
	return 0
}

// TestNextHourCoversTheProcess: the interval over blocks of time is for the mean
// of the process, not of the window.
func TestNextHourCoversTheProcess(t *testing.T) {
	const worlds = coverageWorlds
	long := ordinary(1 << 40)
	long.n, long.blocks = 100_000, 5_000
	_, process := long.draw()
	var covered float64
	for seed := range uint64(worlds) {
		in, _ := ordinary(seed + 5000).draw()
		p := only(in, Options{Level: 0.9})
		covered += within(p.NextHour, process)
	}
	t.Logf("covered %.1f %%", 100*covered/worlds)
	assert.GreaterOrEqual(t, covered/worlds, 0.9-3*math.Sqrt(0.9*0.1/worlds))
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		after  func(*Input)
		why    string
	}{
		"nobody chose b":           {func(w *world) { w.noChoice = true }, nil, "0 control legs of requests that chose recompute"},
		"δ differs between sizes":  {func(w *world) { w.biasBySize = 0.1 }, nil, "differ between sizes or loads"},
		"legs fail":                {func(w *world) { w.fails = 0.7 }, nil, "fewer than 50 % of the drawn legs were run"},
		"too few legs":             {func(w *world) { w.rate = 0.004 }, nil, "needed: wait, or raise the rate"},
		"one leg decides":          {func(w *world) { w.heavy = true; w.controls = 1; w.bias = 0 }, nil, "one leg is"},
		"nothing observed":         {func(*world) {}, func(in *Input) { blind(in) }, "have no observed TTFT"},
		"nothing drawn":            {func(*world) {}, func(in *Input) { undrawn(in) }, "no leg of recompute was drawn"},
		"draws not known":          {func(*world) {}, func(in *Input) { unintended(in) }, "no leg of recompute was drawn"},
		"probabilities far apart":  {func(*world) {}, func(in *Input) { uneven(in) }, "worth"},
		"no candidate":             {func(*world) {}, func(in *Input) { infeasible(in) }, "no request was fetched that could have been recomputed"},
		"control legs of one size": {func(*world) {}, func(in *Input) { oneSize(in) }, "control legs of recompute cover"},
		"no decisions":             {func(w *world) { w.n = 0 }, nil, "no request was fetched"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := ordinary(3)
			c.change(&w)
			in, _ := w.draw()
			if c.after != nil {
				c.after(&in)
			}
			v := Estimate(in, Options{}).Verdict
			assert.Equal(t, Unknown, v.State)
			assert.Contains(t, v.Why, c.why)
			p := v.Pair
			assert.False(t, p.Known)
			for _, x := range []float64{p.Theta, p.Window.Lo, p.Window.Hi, p.NextHour.Lo, p.Always.Lo, p.Exact.Lo, p.Naive, p.Direct, p.IPW, p.SNIPW} {
				assert.True(t, math.IsNaN(x), "a refusal shows no number")
			}
			assert.Equal(t, 1.0, v.UnknownShare)
		})
	}
}

func blind(in *Input) {
	for i := range in.Decisions {
		if i%3 > 0 {
			in.Decisions[i].Y = math.NaN()
		}
	}
}

func undrawn(in *Input) {
	unintended(in)
	in.Legs = nil
}

func unintended(in *Input) {
	for i := range in.Decisions {
		in.Decisions[i].Intended = [NumPaths]float64{}
	}
}

func uneven(in *Input) {
	for i := range in.Legs {
		if in.Legs[i].Kind == schema.LegRejected && i > 3 {
			in.Legs[i].Inclusion = 1
		} else if in.Legs[i].Kind == schema.LegRejected {
			in.Legs[i].Inclusion = 1e-3
		}
	}
}

func infeasible(in *Input) {
	for i := range in.Decisions {
		in.Decisions[i].Model[schema.PathRecompute] = math.NaN()
	}
}

func oneSize(in *Input) {
	size := map[schema.RowID]int{}
	for i := range in.Decisions {
		d := &in.Decisions[i]
		size[d.ID] = d.Slice.Size
		if d.Path == schema.PathRecompute && d.Slice.Size != 1 {
			d.Intended = [NumPaths]float64{}
		}
	}
	kept := in.Legs[:0]
	for _, l := range in.Legs {
		if l.Kind == schema.LegRejected || size[l.Of] == 1 {
			kept = append(kept, l)
		}
	}
	in.Legs = kept
}

func TestContributionsGiveTheEstimateBack(t *testing.T) {
	in, _ := ordinary(11).draw()
	r := Estimate(in, Options{})
	require.True(t, r.Verdict.Pair.Known)
	var n, unknown, legs int
	var sum float64
	for _, c := range r.Contributions {
		if c.From != schema.PathFetch {
			continue
		}
		n, unknown, legs, sum = n+c.N, unknown+c.Unknown, legs+c.Legs, sum+c.Sum
	}
	p := r.Verdict.Pair
	assert.Equal(t, p.N, n)
	assert.Equal(t, p.Unknown+p.Infeasible, unknown)
	assert.Equal(t, p.Legs, legs)
	assert.InDelta(t, p.Theta, sum/float64(n), 1e-12)
}

func TestRepeatedUnjoinedAndBrokenLegsAreCounted(t *testing.T) {
	in, _ := ordinary(12).draw()
	want := Estimate(in, Options{}).Verdict.Pair
	broken := in.Legs[0]
	broken.ModelReplay = math.NaN()
	in.Legs = append(in.Legs, in.Legs[0], Leg{Path: schema.PathFetch, Inclusion: 1}, broken)
	in.Legs[len(in.Legs)-2].Of[0] = 1
	r := Estimate(in, Options{})
	assert.Equal(t, []int{1, 1, 1}, []int{r.RepeatedLegs, r.UnjoinedLegs, r.UnusableLegs})
	assert.Empty(t, cmp.Diff(want, r.Verdict.Pair, cmpopts.EquateNaNs()), "they change nothing")
}

// TestRecalibrationIsPredictable: what a request is given does not depend on
// legs of its own block or of later ones.
func TestRecalibrationIsPredictable(t *testing.T) {
	in, _ := ordinary(13).draw()
	before := newIndex(in, Options{})
	model := before.recalibrated(schema.PathFetch, schema.PathRecompute)
	for i := range in.Legs {
		if d := before.block(in.Legs[i].Of); d >= 10 {
			in.Legs[i].Y += 1
		}
	}
	after := newIndex(in, Options{})
	changed := after.recalibrated(schema.PathFetch, schema.PathRecompute)
	differs := false
	for i, r := range after.requests {
		if r.Block <= 10 {
			assert.Equal(t, model[i], changed[i])
		} else {
			differs = differs || model[i] != changed[i]
		}
	}
	assert.True(t, differs, "later blocks learn from it")
}

func (ix *index) block(id schema.RowID) int64 {
	for _, r := range ix.requests {
		if r.ID == id {
			return r.Block
		}
	}
	return -1
}
