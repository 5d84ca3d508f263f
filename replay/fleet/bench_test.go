package fleet_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
)

// sessions makes n requests of the trace's shape without end: 68 a second, six in
// ten of them a new conversation, the others a turn of a recent one.
func sessions(n int) []fleet.Request {
	rng := rand.New(rand.NewPCG(1, 1))
	out := make([]fleet.Request, n)
	next, now := int64(1), 0.0
	for i := range out {
		var before []int64
		if i > 1_000 && rng.Float64() < 0.4 {
			before = out[i-500-rng.IntN(500)].Blocks
		} else {
			before = []int64{0}
		}
		tokens := int64(500 + 7_000*math.Exp(rng.NormFloat64()))
		blocks := append([]int64(nil), before[:min(len(before), 200)]...)
		for range tokens / fleet.BlockTokens {
			blocks = append(blocks, next)
			next++
		}
		now += rng.ExpFloat64() / 55
		out[i] = fleet.Request{At: now, PromptTokens: int64(len(blocks))*fleet.BlockTokens + 1, OutputTokens: 340, Blocks: blocks}
	}
	return out
}

// BenchmarkFleet is the cost of a request, all of it, from New to the last first
// token. Linear means that the figure does not grow with the number of requests.
func BenchmarkFleet(b *testing.B) {
	points := ladder()
	for _, n := range []struct {
		name     string
		requests int
	}{{"25k", 25_000}, {"100k", 100_000}} {
		requests := sessions(n.requests)
		b.Run(n.name, func(b *testing.B) {
			b.ReportAllocs()
			var l fleet.Load
			for b.Loop() {
				cfg := fleet.Busy(1, points)
				cfg.SpeedUp, cfg.Grid, cfg.Workers = 1, 0, fleet.MaxWorkers
				s, err := fleet.New(cfg, requests, fleet.SeedRule(fleet.DefaultPredictor(), fleet.Exploration{Share: 0.05}))
				require.NoError(b, err)
				got := 0
				for until := 5.0; !s.Done(); until += 5 {
					got += len(s.Advance(until).Outcomes)
				}
				require.Equal(b, n.requests, got)
				l = s.Load()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n.requests), "ns/request")
			b.ReportMetric(l.GPU, "gpu-load")
			b.ReportMetric(l.Offered, "link-load")
		})
	}
}
