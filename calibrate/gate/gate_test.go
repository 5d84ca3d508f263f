package gate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// plant makes n cases of a slice: predictions off by a factor, times noise.
func plant(rng *rand.Rand, path string, n int, champion, challenger float64) (out []Case) {
	for i := range n {
		truth := 0.1 + rng.Float64()
		out = append(out, Case{Slice: Slice{Path: path, Size: 1}, AtNanos: int64(i), Champion: truth * champion,
			Challenger: truth * challenger, Observed: truth * math.Exp(0.1*rng.NormFloat64())})
	}
	return out
}

func TestJudge(t *testing.T) {
	nan := math.NaN()
	type part struct {
		path                 string
		n                    int
		champion, challenger float64
	}
	for _, tc := range []struct {
		name     string
		parts    []part
		champion bool
		publish  bool
		says     string
	}{
		{"better everywhere", []part{{"fetch", 500, 1.3, 1}, {"recompute", 500, 1.3, 1}}, true, true, "better on 2 of 2"},
		{"better where the link changed, the same elsewhere", []part{{"fetch", 500, 1.3, 1}, {"recompute", 500, 1, 1}}, true, true, "better on 1 of 2"},
		{"worse on one", []part{{"fetch", 500, 1.3, 1}, {"recompute", 500, 1, 1.3}}, true, false, "recompute 513–2,048: the challenger may be worse"},
		{"no better", []part{{"fetch", 500, 1, 1}}, true, false, "not better beyond chance"},
		{"the same but for rounding", []part{{"fetch", 500, 1.3 + 1e-12, 1.3}, {"recompute", 500, 1.3, 1.3}}, true, false, "not better beyond chance"},
		{"too few where it matters", []part{{"fetch", 500, 1.3, 1}, {"route", 20, 1.3, 1}}, true, false, "20 held-out requests"},
		{"too few where it does not", []part{{"fetch", 5000, 1.3, 1}, {"route", 20, 1.3, 1}}, true, true, "better on 1 of 1"},
		{"a law is gone", []part{{"fetch", 500, 1.3, 1}, {"recompute", 500, 1, nan}}, true, false, "no law"},
		{"first, within the bound", []part{{"fetch", 500, nan, 1.2}}, false, true, "no champion"},
		{"first, beyond it", []part{{"fetch", 500, nan, 2}}, false, false, "over the bound"},
		{"first, too few", []part{{"fetch", 30, nan, 1}}, false, false, "fewer than 50"},
		{"nothing", nil, false, false, "no slice"},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		var cases []Case
		for _, p := range tc.parts {
			cases = append(cases, plant(rng, p.path, p.n, p.champion, p.challenger)...)
		}
		got := Judge(cases, tc.champion, Rules{})
		assert.Equal(t, tc.publish, got.Publish, "%s: %s", tc.name, got.Reason)
		assert.Contains(t, got.Reason, tc.says, tc.name)
	}
}

// An equal challenger is taken for better no more often than the interval allows.
func TestChanceSeldomPublishes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	published := 0
	const worlds = 400
	for range worlds {
		var cases []Case
		for i := range 200 {
			observed := math.Exp(0.2 * rng.NormFloat64())
			cases = append(cases, Case{AtNanos: int64(i), Observed: observed,
				Champion: math.Exp(0.1 * rng.NormFloat64()), Challenger: math.Exp(0.1 * rng.NormFloat64())})
		}
		if Judge(cases, true, Rules{}).Publish {
			published++
		}
	}
	assert.Less(t, float64(published)/worlds, 0.09, "5 %% is meant")
}

func TestPredictIsTheModel(t *testing.T) {
	d := &schema.Document{
		Prefill:  []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C1: 1e-4}}},
		Transfer: []schema.TransferFit{{Tier: "cpu", Link: "l", Law: cost.Transfer{T0: 0.01, Link: cost.Link{B: 1e9}}}},
		Restore:  []schema.RestoreFit{{Model: "m", Tier: "cpu", Law: cost.Restore{D0: 0.002}}},
		Queue:    schema.QueueFit{Slope: 2, Quality: schema.Quality{N: 1}},
	}
	r := Request{Path: schema.PathFetch, Model: "m", GPU: "g", Tier: schema.TierCPU, Link: "l", Computed: 100, Before: 900,
		Bytes: 1e8, ReportedQueue: 0.05, Flows: 1, TTFT: 1}
	assert.InDelta(t, 0.01+0.2+0.002+0.01, NewModel(d).Predict(r), 1e-12)
	r.Bytes = 0
	assert.InDelta(t, 0.1+0.01, NewModel(d).Predict(r), 1e-12)
	r.GPU = "other"
	assert.True(t, math.IsNaN(NewModel(d).Predict(r)))
	require.True(t, math.IsNaN(NewModel(nil).Predict(r)))
	assert.Len(t, Cases([]Request{r, {}}, nil, d), 1, "a request without TTFT is no case")
}

// A fifth of the bandwidth lost is found after about 2σ² ln(1/α)/shift², and
// nothing is found where nothing happens.
func TestDriftIsFoundInTime(t *testing.T) {
	const sigma, before = 0.3, 500
	rng := rand.New(rand.NewPCG(5, 6))
	want := 2 * sigma * sigma * math.Log(1000) / (DefaultShift * DefaultShift)
	delays, false_, worlds := 0.0, 0, 200
	for range worlds {
		residuals := make([]float64, before+300)
		for i := range residuals {
			residuals[i] = sigma * rng.NormFloat64()
			if i >= before {
				residuals[i] += DefaultShift
			}
		}
		if (Drift{Sigma: sigma}).Test(residuals[:before]).Found {
			false_++
			continue
		}
		found := Drift{Sigma: sigma}.Test(residuals)
		require.True(t, found.Found)
		assert.True(t, found.Up)
		delays += float64(found.At - before)
	}
	delay := delays / float64(worlds-false_)
	t.Logf("found after %.1f residuals, %.1f by the formula; %d of %d false within %d", delay, want, false_, worlds, before)
	assert.Less(t, delay, 1.3*want)
	assert.Less(t, float64(false_), float64(worlds)*(1-math.Exp(-before/1000.0)))

	assert.False(t, Drift{}.Test([]float64{0.01, -0.01, 50, 0.01, -0.01, 0.01}).Found, "one outlier is no drift")
}
