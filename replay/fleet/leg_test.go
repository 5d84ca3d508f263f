package fleet_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
)

// replayed runs requests and, every second, replays each candidate of every n-th
// request that finished in it.
func replayed(t *testing.T, cfg fleet.Config, requests []fleet.Request, n int) (*fleet.Sim, []fleet.Outcome, []fleet.LegOutcome) {
	s, err := fleet.New(cfg, requests, fetchAll(0.05))
	require.NoError(t, err)
	var out []fleet.Outcome
	var legs []fleet.LegOutcome
	id := uint64(0)
	for until := 1.0; !s.Done(); until++ {
		step := s.Advance(until)
		out, legs = append(out, step.Outcomes...), append(legs, step.Legs...)
		for _, o := range step.Outcomes {
			for _, c := range o.Decision.Candidates {
				if n > 0 && o.Index%n == 0 {
					id++
					require.NoError(t, s.Inject(fleet.Leg{ID: id, PromptTokens: requests[o.Index].PromptTokens, Candidate: c}))
				}
			}
		}
	}
	require.Len(t, legs, int(id))
	return s, out, legs
}

func mean(out []fleet.Outcome) float64 {
	sum := 0.0
	for _, o := range out {
		sum += o.Observed.TTFT.V
	}
	return sum / float64(len(out))
}

func TestLegsAreLowPriorityTraffic(t *testing.T) {
	cfg, requests := fleet.Busy(2, ladder()), conversation(3_000)
	plain, without, _ := replayed(t, cfg, requests, 0)
	some, with, legs := replayed(t, cfg, requests, 20)
	require.Greater(t, len(legs), 200)
	require.NotEqual(t, mean(without), mean(with), "replays are inside the traffic")
	require.InEpsilon(t, mean(without), mean(with), 0.25, "and give way to it")
	require.Equal(t, sorted(plain.Snapshot().Store), sorted(some.Snapshot().Store), "and leave its caches alone")
	for _, l := range legs {
		ob := l.Observed
		require.InDelta(t, ob.TTFT.V, ob.GPUQueue.V+ob.ExposedStall.V+ob.Restore.V+ob.Prefill.V+ob.Remainder().V, 1e-9)
		require.InDelta(t, l.FirstToken-l.At, ob.TTFT.V, 1e-9)
		require.Equal(t, l.Leg.Candidate.Bytes, l.LinkBytes)
		require.InDelta(t, ob.Restore.V+ob.Prefill.V, l.GPUSeconds, 1e-9)
	}
	truth, err := some.Truth(fleet.Plan{ExternalEvery: 30, Horizon: 5})
	require.NoError(t, err)
	for _, x := range truth {
		if x.External != nil {
			require.Zero(t, x.External[x.Chosen], "a fork with the same choice is the same run, replays included")
		}
	}
}

func sorted(ids []int64) []int64 {
	slices.Sort(ids)
	return ids
}

func TestLegDrawsAreItsOwn(t *testing.T) {
	cfg := fleet.Calm(2, ladder())
	s, err := fleet.New(cfg, nil, fetchAll(0))
	require.NoError(t, err)
	c := schema.Candidate{Path: schema.PathRecompute, Worker: s.Workers()[1], TokensComputed: 9_000}
	prefill := map[float64]bool{}
	for id := range uint64(3) {
		require.True(t, s.Idle(1))
		require.NoError(t, s.Inject(fleet.Leg{ID: id, PromptTokens: 9_000, Candidate: c}))
		require.False(t, s.Idle(1))
		require.True(t, s.Idle(0))
		legs := s.Advance(math.Inf(1)).Legs
		require.Len(t, legs, 1)
		prefill[legs[0].Observed.Prefill.V] = true
	}
	require.Len(t, prefill, 3)
	require.Empty(t, cmp.Diff(&fleet.Snapshot{Workers: [][]int64{{}, {}}, Store: []int64{}}, s.Snapshot()))
}

func TestInjectRefuses(t *testing.T) {
	s, err := fleet.New(fleet.Calm(2, ladder()), nil, fetchAll(0))
	require.NoError(t, err)
	require.ErrorContains(t, s.Inject(fleet.Leg{Candidate: schema.Candidate{Worker: "nobody", TokensComputed: 1}}), `no worker "nobody"`)
	require.ErrorContains(t, s.Inject(fleet.Leg{Candidate: schema.Candidate{Worker: "worker-00"}}), "1 or more must be computed")
	require.ErrorContains(t, s.Inject(fleet.Leg{Candidate: schema.Candidate{Worker: "worker-00", TokensFetched: -1, TokensComputed: 1}}), "negative")
}
