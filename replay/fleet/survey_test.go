package fleet_test

import (
	"fmt"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/stretchr/testify/require"
	"math"
	"os"
	"testing"
	"time"
)

func TestTruthSurvey(t *testing.T) {
	reqs := conversation(t, 12031)
	busy := fleet.Busy(1, ladder(t))
	if v := os.Getenv("SPEED"); v != "" {
		fmt.Sscan(v, &busy.SpeedUp)
	}
	if v := os.Getenv("SEED"); v != "" {
		fmt.Sscan(v, &busy.Seed)
	}
	if v := os.Getenv("BG"); v != "" {
		fmt.Sscan(v, &busy.Background.Duty, &busy.Background.Depth)
	}
	if v := os.Getenv("WB"); v != "" {
		fmt.Sscan(v, &busy.WorkerBlocks)
	}
	if v := os.Getenv("W"); v != "" {
		fmt.Sscan(v, &busy.Workers)
	}
	for _, cfg := range []fleet.Config{busy, fleet.Calm(1, ladder(t))} {
		s, err := fleet.New(cfg, reqs, fleet.FetchAll(fleet.DefaultPrior(), fleet.Exploration{Share: 0.05, Salt: 1}))
		require.NoError(t, err)
		st := s.Advance(math.Inf(1))
		t0 := time.Now()
		tr, err := s.Truth(fleet.Plan{ExternalEvery: 100, Horizon: 10})
		require.NoError(t, err)
		el := time.Since(t0)
		by := map[int]fleet.Outcome{}
		for _, o := range st.Outcomes {
			by[o.Index] = o
		}
		sums := map[string][4]float64{}
		for _, x := range tr {
			o := by[x.Index]
			for i, c := range o.Decision.Candidates {
				if i == x.Chosen {
					continue
				}
				k := o.Decision.Path.String() + ">" + c.Path.String()
				v := sums[k]
				v[0]++
				v[1] += x.TTFT[i] - x.TTFT[x.Chosen]
				if x.External != nil {
					v[2]++
					v[3] += x.External[i]
				}
				sums[k] = v
			}
		}
		t.Logf("%s truth %v load %+v", cfg.Link.Name, el, s.Load())
		for k, v := range sums {
			t.Logf("  %s n=%v mean %.4f  ext n=%v mean %.4f", k, v[0], v[1]/v[0], v[2], v[3]/v[2])
		}
	}
}
