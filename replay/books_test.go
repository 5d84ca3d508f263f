package replay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// TestTheBudgetSurvivesARestart: what was earned can be spent after it, and debt
// and completeness are not forgotten.
func TestTheBudgetSurvivesARestart(t *testing.T) {
	dir, parts := t.TempDir(), decisions(4000)
	limits := func(c *Config) { c.Limits = budget.Limits{Share: 0.2, GPUBurst: 2, ByteBurst: 8e9} }
	open := func() (*Store, *Runner) {
		store, err := OpenStore(dir, 0)
		require.NoError(t, err)
		return store, newRunner(t, store, &sink{}, limits)
	}
	store, r := open()
	for at := 0; at < 2000; at += 100 {
		legs, err := r.Offer(parts[at].StartNanos, parts[at:at+100])
		require.NoError(t, err)
		for _, l := range legs {
			result := execute.Result{StartNanos: 1, EndNanos: 2, Observed: schema.Observed{TTFT: schema.Some(1.0)}, Cost: l.Estimate()}
			require.NoError(t, r.Finish(t.Context(), parts[at].StartNanos, l, result, nil))
		}
	}
	before, ledger := r.Stats(), r.ledger.State()
	require.NoError(t, store.Close())

	store, r = open()
	after := r.Stats()
	assert.Equal(t, before.BySize, after.BySize)
	assert.Equal(t, before.Completion, after.Completion)
	assert.InDelta(t, before.Legs.GPUSeconds, after.Legs.GPUSeconds, 1e-9)
	for name, b := range r.ledger.State().Workers {
		assert.InDelta(t, ledger.Workers[name].Tokens, b.Tokens, 0.2, "what was earned since the last leg is lost at most")
		assert.LessOrEqual(t, b.Tokens, ledger.Workers[name].Tokens+1e-9, "and never invented")
	}
	require.NoError(t, store.Forget(0), "compaction keeps the books")
	require.NoError(t, store.Close())
	store, r = open()
	assert.Equal(t, before.BySize, r.Stats().BySize)
	require.NoError(t, store.Close())

	s, err := StoredStatus(dir, "")
	require.NoError(t, err)
	assert.False(t, s.Running)
	assert.Equal(t, before.Executed, s.Emitted)
	assert.Equal(t, before.Waiting, s.Waiting)
	assert.Equal(t, r.cfg.Plan.ID(), s.Plan)
	assert.Equal(t, r.Status().BySize, s.BySize)
}

// TestTornFiles copies the store's file as a kill would leave it, cut
// at a random byte of what was written since, and goes on from there: in the end
// each leg drawn has one result or one reason, and none has both.
func TestTornFiles(t *testing.T) {
	parts, out := decisions(2000), &sink{}
	r := rand.New(rand.NewPCG(7, 7))
	plan := newRunner(t, NewMemoryStore(), out, nil)
	var want []string
	for _, p := range parts {
		for _, d := range plan.cfg.Plan.Draw(p) {
			want = append(want, legID(p, d.Leg))
		}
	}
	fails := func(l execute.Leg) error {
		if l.Seed()%5 == 0 {
			return execute.ErrRefused
		}
		return nil
	}
	dir, acked, kills := t.TempDir(), 0, 0
	for done := false; !done; {
		store, err := OpenStore(dir, 0)
		require.NoError(t, err)
		runner, ex := newRunner(t, store, out, nil), &executetest.Fake{Fail: fails}
		require.NoError(t, runner.Flush(t.Context(), start))
		dies := kills < 10
		steps := 1 + r.IntN(8)
		next := ""
		for step := 0; !done && !(dies && step == steps); step++ {
			sizes := size(t, dir)
			at := min(acked+20, len(parts))
			legs, err := runner.Offer(start, parts[acked:at])
			require.NoError(t, err)
			for _, l := range legs {
				result, err := ex.Run(t.Context(), l)
				require.NoError(t, runner.Finish(t.Context(), start, l, result, err))
			}
			if dies && step == steps-1 {
				next = crash(t, dir, sizes+r.Int64N(size(t, dir)-sizes+1))
				kills++
				break // its offsets were not committed
			}
			acked = at
			done = acked == len(parts) && runner.Stats().Waiting == 0
		}
		require.NoError(t, store.Close())
		if next != "" {
			dir, done = next, false
		}
	}
	require.Equal(t, 10, kills)
	store, err := OpenStore(dir, 0)
	require.NoError(t, err)
	defer store.Close()
	emitted, refused := out.ids(), 0
	for _, id := range want {
		e := store.legs[id]
		require.NotNil(t, e, "leg %s was forgotten", id)
		require.True(t, e.done, "leg %s is still under way", id)
		n := emitted[schema.ReplayRequestIDPrefix+id]
		if e.why != "" {
			refused++
			assert.Zero(t, n)
			continue
		}
		assert.GreaterOrEqual(t, n, 1, "leg %s has neither a result nor a reason", id)
	}
	assert.Len(t, store.legs, len(want), "and no other leg ran")
	assert.Equal(t, len(want)-refused, len(emitted), "a result that came again carries the same identifiers")
	assert.Positive(t, refused)
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, storeFile))
	require.NoError(t, err)
	return info.Size()
}

// crash copies a store whose file ends after so many bytes.
func crash(t *testing.T, dir string, bytes int64) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{storeFile, PlansFile} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		if name == storeFile {
			raw = raw[:bytes]
		}
		require.NoError(t, os.WriteFile(filepath.Join(to, name), raw, 0o600))
	}
	return to
}

func TestDamagedPlansAreRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, PlansFile), []byte("[]"), 0o600))
	_, err := OpenStore(dir, 0)
	assert.ErrorContains(t, err, "can not be read")
	_, err = ReadPlans(filepath.Join(dir, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.NotEmpty(t, fmt.Sprint(err))
}
