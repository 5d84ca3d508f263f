package fleet_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
)

// effect is the mean direct truth of local recompute less fetch, over the requests
// that fetched: positive where fetching helped.
func effect(t *testing.T, s *fleet.Sim, out []fleet.Outcome) (mean float64, n int) {
	truth, err := s.Truth(fleet.Plan{})
	require.NoError(t, err)
	decisions := map[int]*schema.Decision{}
	for i := range out {
		decisions[out[i].Index] = &out[i].Decision
	}
	for _, x := range truth {
		if decisions[x.Index].Path == schema.PathFetch {
			mean += x.TTFT[0] - x.TTFT[x.Chosen]
			n++
		}
	}
	return mean / float64(n), n
}

// The demo stands on this: the same policy helps on one link and hurts on the
// other, by load alone.
func TestFetchingHelpsOnTheCalmLinkAndHurtsOnTheBusyOne(t *testing.T) {
	requests := conversation(12_031)
	calm, out := run(t, fleet.Calm(1, ladder()), requests, fetchAll(0.05))
	helps, n := effect(t, calm, out)
	require.Greater(t, n, 2_000)
	require.Greater(t, helps, 0.1, "calm, %+v", calm.Load())
	busy, out := run(t, fleet.Busy(1, ladder()), requests, fetchAll(0.05))
	hurts, n := effect(t, busy, out)
	require.Greater(t, n, 2_000)
	require.Less(t, hurts, -0.1, "busy, %+v", busy.Load())
	t.Logf("calm %+.3f s at %+v; busy %+.3f s at %+v", helps, calm.Load(), hurts, busy.Load())
}

// scripted repeats logged choices, but for one request.
func scripted(choices map[int]int, except, instead int) fleet.Decider {
	return func(q *fleet.Query) int {
		if q.Index == except {
			return instead
		}
		return choices[q.Index]
	}
}

// The direct truth against whole runs in which one choice differs: of the last
// requests, where no later decision is offered anything else because of it.
func TestDirectTruthIsTheOtherRun(t *testing.T) {
	cfg, requests := fleet.Busy(3, ladder()), conversation(600)
	s, out := run(t, cfg, requests, fetchAll(0.2))
	choices, last := map[int]int{}, 0.0
	for _, o := range out {
		choices[o.Index] = int(o.Decision.Chosen.V)
		last = math.Max(last, o.At)
	}
	truth, err := s.Truth(fleet.Plan{ExternalEvery: 1, Horizon: 1e9})
	require.NoError(t, err)
	ttft := map[int]float64{}
	for _, o := range out {
		ttft[o.Index] = o.Observed.TTFT.V
	}
	compared := 0
	for _, o := range out {
		if o.At < last-1 || len(o.Decision.Candidates) == 1 {
			continue
		}
		for i := range o.Decision.Candidates {
			_, other := run(t, cfg, requests, scripted(choices, o.Index, i))
			if !sameOptions(out, other) {
				continue
			}
			others := 0.0
			for _, x := range other {
				if x.Index == o.Index {
					require.InDelta(t, x.Observed.TTFT.V, truthOf(truth, o.Index).TTFT[i], 1e-9)
				} else {
					others += x.Observed.TTFT.V - ttft[x.Index]
				}
			}
			require.InDelta(t, others, truthOf(truth, o.Index).External[i], 1e-7)
			compared++
		}
	}
	require.Greater(t, compared, 20)
}

func truthOf(all []fleet.Truth, index int) fleet.Truth {
	for _, x := range all {
		if x.Index == index {
			return x
		}
	}
	return fleet.Truth{}
}

func sameOptions(a, b []fleet.Outcome) bool {
	byIndex := map[int]*fleet.Outcome{}
	for i := range a {
		byIndex[a[i].Index] = &a[i]
	}
	for i := range b {
		x, y := byIndex[b[i].Index].Decision.Candidates, b[i].Decision.Candidates
		if len(x) != len(y) {
			return false
		}
		for k := range x {
			if x[k].Path != y[k].Path || x[k].Worker != y[k].Worker || x[k].TokensComputed != y[k].TokensComputed || x[k].TokensResident != y[k].TokensResident {
				return false
			}
		}
	}
	return true
}

func TestTruthSamples(t *testing.T) {
	s, out := run(t, fleet.Busy(3, ladder()), conversation(2_000), fetchAll(0.05))
	truth, err := s.Truth(fleet.Plan{Every: 4, ExternalEvery: 10, Horizon: 3})
	require.NoError(t, err)
	require.InDelta(t, float64(len(out))/4, float64(len(truth)), 100)
	external := 0
	for _, x := range truth {
		if x.External != nil {
			external++
			require.Zero(t, x.External[x.Chosen])
			require.Zero(t, x.Decode[x.Chosen])
		}
	}
	require.Greater(t, external, 5)
}
