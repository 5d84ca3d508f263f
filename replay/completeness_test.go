package replay

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// replayed has large legs fail with a probability, and gives the verdict, what the
// truth is by the model, and what the runner counted.
func replayed(t *testing.T, fails float64) (estimate.Pair, float64, *Runner) {
	t.Helper()
	parts, out := decisions(6000), &sink{}
	r := newRunner(t, NewMemoryStore(), out, func(c *Config) { c.Plan = testPlan(t, 0.4) })
	large := schema.SizeBucket(2400)
	ex := &executetest.Fake{Fail: func(l execute.Leg) error {
		if schema.SizeBucket(l.TokensPrefix) >= large && float64(l.Seed()>>11)/(1<<53) < fails {
			return execute.ErrRefused
		}
		return nil
	}}
	for at := 0; at < len(parts); at += 500 {
		legs, err := r.Offer(parts[at].StartNanos, parts[at:at+500])
		require.NoError(t, err)
		for _, l := range legs {
			result, err := ex.Run(t.Context(), l)
			require.NoError(t, r.Finish(t.Context(), parts[at].StartNanos, l, result, err))
		}
	}
	var in estimate.Input
	truth, n := 0.0, 0.0
	for i, p := range parts {
		d := DecisionOf(r.cfg.Plan, p, int64(i/200))
		if d.Path == schema.PathFetch {
			truth, n = truth+d.Model[schema.PathRecompute]-d.Y, n+1
		}
		in.Decisions = append(in.Decisions, d)
	}
	for i := range out.parts {
		l, err := LegOf(&out.parts[i])
		require.NoError(t, err)
		in.Legs = append(in.Legs, l)
	}
	return estimate.Estimate(in, estimate.Options{}).Verdict.Pair, truth / n, r
}

// TestCompletenessReweightsAndRefuses: where a third of the large legs is missing,
// the rest stand for them; where most are, nothing is said, and why. The status
// tells of both by size.
func TestCompletenessReweightsAndRefuses(t *testing.T) {
	least := func(r *Runner) (share float64, enough bool) {
		share, enough = 1, true
		for _, c := range r.Status().BySize {
			share, enough = math.Min(share, c.Share), enough && c.Enough
		}
		return share, enough
	}
	p, truth, r := replayed(t, 0.33)
	require.True(t, p.Known, p.Why)
	assert.InDelta(t, truth, p.Theta, 4*p.Window.SE)
	large, enough := least(r)
	assert.InDelta(t, 0.67, large, 0.08)
	assert.True(t, enough)

	p, _, r = replayed(t, 0.7)
	assert.False(t, p.Known)
	assert.NotEmpty(t, p.Why)
	t.Log(p.Why)
	large, enough = least(r)
	assert.InDelta(t, 0.3, large, 0.08)
	assert.False(t, enough)
	assert.Positive(t, r.Stats().Dropped["refused by the executor"])
}
