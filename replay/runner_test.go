package replay

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// TestLockstep drives Offer and Finish as a simulation does, and hands what came
// of it to the estimator: with legs that the model carries exactly, the estimate
// is that of the model.
func TestLockstep(t *testing.T) {
	parts, out := decisions(4000), &sink{}
	r, ex := newRunner(t, NewMemoryStore(), out, nil), &executetest.Fake{}
	for at := 0; at < len(parts); at += 500 {
		now := parts[at].StartNanos
		legs, err := r.Offer(now, parts[at:at+500])
		require.NoError(t, err)
		for _, l := range legs {
			result, err := ex.Run(t.Context(), l)
			require.NoError(t, r.Finish(t.Context(), now, l, result, err))
		}
	}
	s := r.Stats()
	assert.Equal(t, int64(4000), s.Decisions)
	assert.Equal(t, s.Drawn, s.Executed)
	assert.Equal(t, s.Executed, s.Emitted)
	for _, c := range s.BySize {
		assert.Equal(t, 1.0, c.Completed())
	}

	var in estimate.Input
	for i, p := range parts {
		in.Decisions = append(in.Decisions, DecisionOf(r.cfg.Plan, p, int64(i/200)))
	}
	for i := range out.parts {
		l, err := LegOf(&out.parts[i])
		require.NoError(t, err)
		in.Legs = append(in.Legs, l)
	}
	report := estimate.Estimate(in, estimate.Options{})
	v := report.Verdict
	require.True(t, v.Pair.Known, v.Why)
	want := 0.0
	for _, d := range in.Decisions {
		if d.Path == schema.PathFetch {
			want += (d.Model[schema.PathRecompute] - d.Y) / float64(v.Pair.N)
		}
	}
	assert.Equal(t, 3000, v.Pair.N)
	assert.InDelta(t, want, v.Pair.Theta, 4*v.Pair.Window.SE, "%+v", v.Pair)
	assert.Less(t, v.Pair.Naive, v.Pair.Theta-0.05, "a quiet replay looks faster than it was")
	assert.Zero(t, report.UnjoinedLegs+report.UnusableLegs+report.RepeatedLegs)
}

func TestOfferIsDeterministicAndNeverRepeats(t *testing.T) {
	parts := decisions(300)
	a, b := newRunner(t, NewMemoryStore(), &sink{}, nil), newRunner(t, NewMemoryStore(), &sink{}, nil)
	first, err := a.Offer(start, parts)
	require.NoError(t, err)
	second, err := b.Offer(start, parts)
	require.NoError(t, err)
	require.NotEmpty(t, first)
	assert.Empty(t, cmp.Diff(first, second, cmpopts.EquateNaNs()))
	again, err := a.Offer(start, append(parts, parts...))
	require.NoError(t, err)
	assert.Empty(t, again)
	assert.Equal(t, 2*int64(len(first)), a.Stats().Again)
}

func TestTheLegSaysWhatToRun(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.Plan = testPlan(t, 1) })
	part := decisions(1)[0]
	legs, err := r.Offer(start, []*schema.Part{part, {Kind: schema.KindEngine}})
	require.NoError(t, err)
	require.Len(t, legs, 2)
	rejected, control := legs[0], legs[1]
	assert.Equal(t, []any{schema.LegRejected, schema.PathRecompute, 1, ""}, []any{rejected.Kind, rejected.Path, rejected.CandidateIndex, rejected.Link})
	assert.Equal(t, []any{schema.LegControl, schema.PathFetch, 0, "fabric"}, []any{control.Kind, control.Path, control.CandidateIndex, control.Link})
	assert.NotEqual(t, rejected.Salt, control.Salt)
	assert.NotEqual(t, rejected.ID, control.ID)
	assert.Equal(t, part.Decision.PrefixBlocks, control.PrefixBlocks)
	assert.InDelta(t, part.Decision.Candidates[0].TTFT, control.ModelDecision, 1e-12)
	assert.InDelta(t, part.Decision.Candidates[1].TTFT, rejected.ModelDecision, 1e-12)

	result := execute.Result{StartNanos: start, EndNanos: start + 1, Observed: schema.Observed{TTFT: schema.Some(0.1)},
		State: execute.State{GPUQueue: 0.5, Flows: 2}, Cost: execute.Cost{GPUSeconds: 0.3, Bytes: 7}}
	p := partOf(&rejected, &result)
	assert.Equal(t, schema.ReplayRequestIDPrefix+rejected.ID, p.RequestID)
	assert.Equal(t, []any{part.Trace, part.Span}, []any{p.Replay.Of, p.Replay.OfSpan})
	assert.InDelta(t, 0.5+part.Decision.Candidates[1].Recompute, p.Replay.ModelReplay.V, 1e-12, "m_b at the replay's load, by the same formula")
	assert.Equal(t, schema.Some(0.3), p.Replay.CostGPU)
	assert.Equal(t, schema.Some[int64](2), p.Replay.ReplayFlows)
	result.ModelReplay = schema.Some(0.7)
	assert.Equal(t, 0.7, partOf(&rejected, &result).Replay.ModelReplay.V, "an executor that knows better")
	assert.Equal(t, p.Trace, partOf(&rejected, &result).Trace, "emitted twice, it is one span")
}

func TestWhatDoesNotRunIsCounted(t *testing.T) {
	kill := filepath.Join(t.TempDir(), "stop")
	cases := map[string]struct {
		change func(*Config)
		now    int64
		why    string
	}{
		"full":     {func(c *Config) { c.Limits.GPURate, c.Limits.Share, c.MaxWaiting = 0, 0, 1 }, start, "too many waited"},
		"too late": {func(c *Config) { c.Limits.MaxAgeNanos = 1e9 }, start + 1e12, "past its deadline"},
		"killed":   {func(c *Config) { c.KillFile = kill }, start, "killed"},
	}
	require.NoError(t, os.WriteFile(kill, nil, 0o600))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, NewMemoryStore(), &sink{}, c.change)
			legs, err := r.Offer(c.now, decisions(100))
			require.NoError(t, err)
			s := r.Stats()
			assert.Empty(t, legs)
			assert.Equal(t, map[string]int64{c.why: s.Drawn - int64(s.Waiting)}, s.Dropped)
			assert.Positive(t, s.Drawn)
			for _, tally := range s.Completion {
				assert.Zero(t, tally.Completed())
			}
			require.NoError(t, r.Flush(t.Context(), c.now))
			again, err := r.Offer(c.now, decisions(100))
			require.NoError(t, err)
			assert.Empty(t, again, "a leg that was given up stays so: its draw was spent")
		})
	}
}

// TestWhatIsShortWaitsInOrder: with half the budget that the legs want, half of
// them run, small and large alike.
func TestWhatIsShortWaitsInOrder(t *testing.T) {
	for _, pool := range []bool{false, true} {
		r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) {
			c.Limits = budget.Limits{Share: 0.2, GPUBurst: 2, ByteBurst: 8e9, Pool: pool}
		})
		parts, now := decisions(8000), int64(0)
		for i := 0; i < len(parts); i += 100 {
			now = parts[i].StartNanos
			legs, err := r.Offer(now, parts[i:i+100])
			require.NoError(t, err)
			for _, l := range legs {
				result := execute.Result{StartNanos: 1, EndNanos: 2, Observed: schema.Observed{TTFT: schema.Some(1.0)}, Cost: l.Estimate()}
				require.NoError(t, r.Finish(t.Context(), now, l, result, nil))
			}
		}
		s := r.Stats()
		assert.Positive(t, s.Waiting)
		assert.Equal(t, s.Drawn, s.Executed+int64(s.Waiting))
		assert.Empty(t, s.Dropped)
		assert.Greater(t, s.OldestWait, start)
		assert.Less(t, s.OldestWait, now)
		mean := float64(s.Executed) / float64(s.Drawn)
		assert.Greater(t, mean, 0.1)
		assert.Less(t, mean, 0.9)
		for _, c := range s.BySize {
			assert.InDelta(t, mean, c.Completed(), 0.25, "%+v", c)
		}
		assert.LessOrEqual(t, s.Legs.GPUSeconds, 0.2*s.Production.GPUSeconds+2)

		next, err := r.Due(now) // nothing was earned since
		require.NoError(t, err)
		assert.Empty(t, next)
		require.NoError(t, r.abandon(now))
		assert.Equal(t, map[string]int64{"over budget": int64(s.Waiting)}, r.Stats().Dropped)
	}
}

func TestFailuresAreDroppedByReason(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, nil)
	legs, err := r.Offer(start, decisions(300))
	require.NoError(t, err)
	require.Greater(t, len(legs), 4)
	for i, runErr := range []error{errors.New("x"), execute.ErrRefused, execute.ErrUnavailable, nil} {
		require.NoError(t, r.Finish(t.Context(), start, legs[i], execute.Result{}, runErr))
	}
	s := r.Stats()
	assert.Equal(t, map[string]int64{"failed": 2, "refused by the executor": 1, "the executor was not available": 1}, s.Dropped,
		"a result without a TTFT is a failure")
	var charged float64
	for _, l := range append(legs[4:], legs[0], legs[3]) { // what failed has spent, nobody knows how much
		charged += l.Estimate().GPUSeconds
	}
	assert.InDelta(t, charged, s.Legs.GPUSeconds, 1e-9)
}

func TestCostsAboveTheEstimateAreCharged(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) {
		c.Limits = budget.Limits{GPURate: 1, GPUBurst: 100, ByteRate: 1e12, ByteBurst: 1e12}
	})
	legs, err := r.Offer(start, decisions(300))
	require.NoError(t, err)
	require.NotEmpty(t, legs)
	before := r.Stats().Legs.GPUSeconds
	result := execute.Result{StartNanos: 1, EndNanos: 2, Observed: schema.Observed{TTFT: schema.Some(1.0)}, Cost: execute.Cost{GPUSeconds: 50}}
	require.NoError(t, r.Finish(t.Context(), start, legs[0], result, nil))
	assert.InDelta(t, before+50-legs[0].Estimate().GPUSeconds, r.Stats().Legs.GPUSeconds, 1e-9)
}

func TestAResultThatIsNotAcceptedWaits(t *testing.T) {
	out := &sink{fail: true}
	r := newRunner(t, NewMemoryStore(), out, nil)
	legs, err := r.Offer(start, decisions(100))
	require.NoError(t, err)
	result := execute.Result{StartNanos: 1, EndNanos: 2, Observed: schema.Observed{TTFT: schema.Some(1.0)}}
	err = r.Finish(t.Context(), start, legs[0], result, nil)
	assert.ErrorIs(t, err, ErrNotEmitted)
	assert.ErrorIs(t, err, errAway)
	assert.ErrorIs(t, r.Flush(t.Context(), start), ErrNotEmitted)
	out.setFail(false)
	require.NoError(t, r.Flush(t.Context(), start))
	require.NoError(t, r.Flush(t.Context(), start))
	assert.Len(t, out.parts, 1)
	assert.Equal(t, int64(1), r.Stats().Emitted)
}

func TestKillSwitch(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, nil)
	h := r.Handler()
	do := func(method, url string) string {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, url, nil))
		return rec.Body.String()
	}
	assert.JSONEq(t, `{"killed":""}`, do("GET", KillPath))
	assert.JSONEq(t, `{"killed":"noisy"}`, do("PUT", KillPath+"?why=noisy"))
	legs, err := r.Offer(start, decisions(50))
	require.NoError(t, err)
	assert.Empty(t, legs)
	assert.Equal(t, "noisy", r.Stats().Killed)
	assert.JSONEq(t, `{"killed":""}`, do("DELETE", KillPath))
	assert.JSONEq(t, `{"killed":"killed"}`, do("PUT", KillPath))
}

func TestPreview(t *testing.T) {
	parts := append(decisions(4000), &schema.Part{Kind: schema.KindContract}, &schema.Part{Kind: schema.KindTransfer})
	r := newRunner(t, NewMemoryStore(), &sink{}, nil)
	p := PreviewOf(r.cfg.Plan, parts, 1)
	legs, err := r.Offer(start, parts)
	require.NoError(t, err)
	var rejected, control int
	var gpu, expected float64
	for _, e := range p.Strata {
		rejected, control, gpu, expected = rejected+e.Rejected, control+e.Control, gpu+e.Cost.GPUSeconds, expected+e.Legs
		for b, pi := range e.Inclusion {
			assert.Greater(t, pi, 0.0, b)
		}
	}
	assert.Equal(t, len(legs), rejected+control, "what it says is what runs")
	assert.InEpsilon(t, float64(len(legs)), expected, 0.1, "and what is to be expected")
	assert.InDelta(t, p.Legs.GPUSeconds, gpu, 1e-9)
	assert.InEpsilon(t, r.Stats().Legs.GPUSeconds, gpu, 0.15)
	assert.Equal(t, []any{4001, map[string]int{"no chosen path": 1}}, []any{p.Decisions, p.Ineligible})
	assert.Positive(t, p.GPUShare())
	assert.Positive(t, p.ByteShare())
	assert.Zero(t, (&Preview{}).GPUShare())
	assert.Equal(t, time.Duration(3999)*10*time.Millisecond, p.Span)
}

// TestPreviewSaysHowLongAVerdictTakes: 3,000 fetched requests in 40 s, of which one
// in five is replayed, give 20 legs of fetch against recompute in 1.3 s, and the 200
// controls of recompute ten in 2 s; with a tenth of the budget it takes ten times
// as long.
func TestPreviewSaysHowLongAVerdictTakes(t *testing.T) {
	parts, plan := decisions(4000), testPlan(t, 0.2)
	p := PreviewOf(plan, parts, 1)
	require.Len(t, p.Pairs, 2)
	pair := p.Pairs[0]
	assert.Equal(t, []any{schema.PathFetch, schema.PathRecompute, 3000}, []any{pair.From, pair.To, pair.Decisions})
	assert.InDelta(t, 600, pair.Legs, 1e-6)
	assert.InDelta(t, 200, pair.Controls, 1e-6)
	assert.InDelta(t, 2.0, pair.Until.Seconds(), 0.01)
	scarce := PreviewOf(plan, parts, max(p.GPUShare(), p.ByteShare())/10)
	assert.InEpsilon(t, 10*pair.Until.Seconds(), scarce.Pairs[0].Until.Seconds(), 1e-6)
	var fetched []*schema.Part
	for _, part := range parts {
		if part.Decision.Path == schema.PathFetch {
			fetched = append(fetched, part)
		}
	}
	never := PreviewOf(plan, fetched, 1)
	assert.Contains(t, never.Pairs[0].Never, "no request chose recompute")
	assert.Zero(t, never.Pairs[0].Until)
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{}, NewMemoryStore())
	assert.ErrorContains(t, err, "required")
	_, err = New(Config{Plan: testPlan(t, 1), Emit: func(context.Context, schema.Part) error { return nil }}, NewMemoryStore())
	assert.ErrorContains(t, err, "bursts")
}
