package fleet_test

import (
	"math"
	"testing"

	"github.com/kvwhatif/kvwhatif/internal/publicdata"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/stretchr/testify/require"
)

// ladder is the demo's prefill law: MCv, TTFT without its transfer.
func ladder(t testing.TB) []fleet.Point {
	rows, err := publicdata.Series("MCv")
	require.NoError(t, err)
	var out []fleet.Point
	for _, r := range rows {
		out = append(out, fleet.Point{Tokens: r.Tokens, Seconds: r.PrefillMeasured})
	}
	return out
}

// conversation is the first n requests of the trace.
func conversation(t testing.TB, n int) []fleet.Request {
	all, err := publicdata.Conversation()
	require.NoError(t, err)
	var out []fleet.Request
	for _, q := range all[:min(n, len(all))] {
		out = append(out, fleet.Request{
			At: float64(q.Millis) / 1000, PromptTokens: q.InputTokens, OutputTokens: q.OutputTokens, Blocks: q.Blocks,
		})
	}
	return out
}

func TestSurvey(t *testing.T) {
	reqs := conversation(t, 12031)
	for name, d := range map[string]fleet.Decider{
		"all": fleet.FetchAll(fleet.DefaultPrior(), fleet.Exploration{Share: 0.05, Salt: 1}), 
		"never": fleet.Never(fleet.DefaultPrior(), fleet.Exploration{}),
		"seed": fleet.SeedRule(fleet.DefaultPrior(), fleet.Exploration{}),
		"greedy": fleet.Greedy(fleet.DefaultPrior(), false, fleet.Exploration{}),
		"selfless": fleet.Greedy(fleet.DefaultPrior(), true, fleet.Exploration{}),
	} {
		for _, cfg := range []fleet.Config{fleet.Busy(1, ladder(t)), fleet.Calm(1, ladder(t))} {
			s, err := fleet.New(cfg, reqs, d)
			require.NoError(t, err)
			st := s.Advance(math.Inf(1))
			sum, q, stall,pre,x, tr := 0.0, 0.0, 0.0,0.0,0.0,0.0
			paths := map[string]int{}
			for _, o := range st.Outcomes {
				sum += o.Observed.TTFT.V
				q += o.Observed.GPUQueue.V
				stall += o.Observed.ExposedStall.V
				pre += o.Observed.Prefill.V
				paths[o.Decision.Path.String()]++
				if o.Decision.Path.String()=="fetch" {x++; tr+=o.Observed.Transfer.V}
			}
			n := float64(len(st.Outcomes))
			t.Logf("%s %s n=%v ttft %.3f queue %.3f stall %.3f prefill %.3f transfer %.3f %v %+v", cfg.Link.Name, name, n, sum/n, q/n, stall/n, pre/n, tr/x, paths, s.Load())
		}
	}
}
