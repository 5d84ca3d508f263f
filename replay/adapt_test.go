package replay

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// TestAdaptingIsANewPlan: a plan that draws far more than the budget holds is
// followed by one that does not, from an instant to come; what was drawn before
// stays repeatable after a restart, and each leg says the plan that drew it.
func TestAdaptingIsANewPlan(t *testing.T) {
	dir, parts, out := t.TempDir(), decisions(4000), &sink{}
	with := func(c *Config) {
		c.Plan, c.Adapt, c.Lead, c.Now = testPlan(t, 0.05), 12*time.Second, time.Second, func() time.Time { return time.Unix(0, parts[len(parts)-1].StartNanos) }
		c.Limits = budget.Limits{Share: 0.6, GPUBurst: 1e6, ByteBurst: 1e15}
	}
	store, err := OpenStore(dir, 0)
	require.NoError(t, err)
	r := newRunner(t, store, out, with)
	for at := 0; at < len(parts); at += 100 {
		now := parts[at+99].StartNanos
		legs, err := r.Offer(now, parts[at:at+100])
		require.NoError(t, err)
		for _, l := range legs {
			result := execute.Result{StartNanos: 1, EndNanos: 2, Observed: schema.Observed{TTFT: schema.Some(l.ModelDecision)}, Cost: l.Estimate()}
			require.NoError(t, r.Finish(t.Context(), now, l, result, nil))
		}
	}
	plans := r.Plans()
	require.GreaterOrEqual(t, len(plans), 2)
	assert.Equal(t, []any{"settings", "budget"}, []any{plans[0].Why, plans[1].Why})
	assert.Equal(t, plans[0].ID, plans[1].Base)
	assert.Greater(t, plans[1].Since, plans[0].Since)
	assert.NotEmpty(t, plans[1].Params.Rates)
	for _, rate := range plans[1].Params.Rates {
		assert.GreaterOrEqual(t, rate, plans[1].Params.MinRate, "never zero")
	}
	require.NoError(t, store.Close())

	store, err = OpenStore(dir, 0)
	require.NoError(t, err)
	defer store.Close()
	again := newRunner(t, store, out, with)
	assert.Equal(t, plans, again.Plans())
	kept, err := ReadPlans(filepath.Join(dir, PlansFile))
	require.NoError(t, err)
	h, err := r.cfg.Plan.RestoreHistory(kept)
	require.NoError(t, err)
	byID := map[schema.RowID]*schema.Part{}
	for _, p := range parts {
		byID[p.RowID()] = p
	}
	drawnBy := map[string]int{}
	for i := range out.parts {
		leg := &out.parts[i].Replay
		p := byID[schema.NewRowID(leg.Of, leg.OfSpan)]
		plan := h.At(p.StartNanos)
		drawnBy[leg.Plan]++
		require.Equal(t, plan.ID(), leg.Plan)
		want := plan.ControlRate(p.Decision.Path)
		if leg.Leg == schema.LegRejected {
			want = plan.Inclusion(p, leg.Path)
		}
		require.InDelta(t, want, leg.Inclusion, 1e-15)
	}
	assert.GreaterOrEqual(t, len(drawnBy), 2, "legs of both plans ran")
	changed := newRunner(t, store, out, func(c *Config) { with(c); c.Plan = testPlan(t, 0.3) })
	last := changed.Plans()[len(changed.Plans())-1]
	assert.Equal(t, []any{"settings", changed.cfg.Plan.ID()}, []any{last.Why, last.ID}, "settings that were changed are a plan of their own")
	assert.Greater(t, last.Since, parts[len(parts)-1].StartNanos, "and draw nothing that was drawn")
}

func TestAdaptingNeedsEnough(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.Adapt = time.Second })
	parts := decisions(minAdapt - 1)
	require.NoError(t, r.Accept(start, parts[:1]))
	require.NoError(t, r.Accept(start+1e12, parts[1:]))
	assert.Len(t, r.Plans(), 1)
}

// TestATimeOfAnotherSaltIsCounted: decisions that an older salt would have drawn are
// not drawn by the new one.
func TestATimeOfAnotherSaltIsCounted(t *testing.T) {
	other, err := sample.New(sample.DefaultParams(), []byte("quite another salt"))
	require.NoError(t, err)
	store := NewMemoryStore()
	require.NoError(t, store.keepPlans(sample.NewHistory(other).Entries()))
	r := newRunner(t, store, &sink{}, func(c *Config) { c.Now = func() time.Time { return time.Unix(0, start) } })
	legs, err := r.Offer(start, decisions(100))
	require.NoError(t, err)
	assert.Empty(t, legs)
	assert.Equal(t, map[string]int64{"of a time of another salt": 100}, r.Stats().Ineligible)
}
