package fleet

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A branch that takes the same choice is the same run: the one worker and the link
// that a branch simulates are all that its request depends on.
func TestBranchWithTheSameChoiceIsTheSameRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	var requests []Request
	for i := range 1_500 {
		talk := int64(rng.IntN(150))
		blocks := make([]int64, 1+rng.IntN(60))
		for k := range blocks {
			blocks[k] = talk<<8 + int64(k)
		}
		requests = append(requests, Request{At: float64(i) / 40, PromptTokens: int64(len(blocks))*BlockTokens - 7, OutputTokens: 200, Blocks: blocks})
	}
	cfg := Busy(4, []Point{{128, 0.0455}, {4096, 0.12}, {32768, 0.72}})
	cfg.SpeedUp, cfg.Grid, cfg.Workers = 1, 0, 12
	s, err := New(cfg, requests, FetchAll(DefaultPredictor(), Exploration{Share: 0.3, Salt: 3}))
	require.NoError(t, err)
	for until := 0.5; !s.Done(); until += 0.5 {
		for i, o := range s.Advance(until).Outcomes {
			if i%5 == 0 {
				c := o.Decision.Candidates[len(o.Decision.Candidates)-1]
				require.NoError(t, s.Inject(Leg{ID: uint64(o.Index), Candidate: c}))
			}
		}
	}
	b := branches{sim: s, base: newCore(&s.cfg)}
	b.base.jobs = s.core.jobs
	compared := 0
	for id := range s.entries {
		b.base.settle(s.core.jobs[id].at)
		b.forget()
		if e := &s.entries[id]; e.request >= 0 {
			require.InDelta(t, e.ttft, b.direct(int32(id), e.options[e.chosen]), 1e-9)
			require.False(t, math.IsNaN(e.ttft))
			compared++
		}
		b.base.place(int32(id))
	}
	require.Equal(t, len(requests), compared)
	require.Greater(t, s.Load().Offered, 0.3)
}
