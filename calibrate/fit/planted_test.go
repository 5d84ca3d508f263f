package fit

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// shared is a link that planted flows run over: n Poisson arrivals at a load
// relative to B, sizes lognormal of mean 1 GiB, durations told with noise.
type shared struct {
	link        cost.Link
	bend        float64
	load, noise float64
	n           int
	seed        uint64
}

type due struct {
	served float64 // at which the flow is done
	flow   int
}

type queue []due

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].served < q[j].served }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(due)) }
func (q *queue) Pop() any          { d := (*q)[len(*q)-1]; *q = (*q)[:len(*q)-1]; return d }

// run simulates the link: flows share it evenly, so that all are served alike.
func (s shared) run() []TransferObs {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	const meanBytes, sigma, mostFlows = 1 << 30, 0.8, 8
	law := cost.Transfer{Bend: s.bend, Link: s.link}
	out := make([]TransferObs, 0, s.n)
	var inFlight queue
	now, served := 0.0, 0.0
	advance := func(until float64) {
		for len(inFlight) > 0 {
			rate := s.link.FlowRate(float64(len(inFlight)))
			done := now + (inFlight[0].served-served)/rate
			if done > until {
				served += rate * (until - now)
				break
			}
			served, now = inFlight[0].served, done
			out[heap.Pop(&inFlight).(due).flow].End = done
		}
		now = until
	}
	for len(out) < s.n {
		i := len(out)
		advance(now + rng.ExpFloat64()*meanBytes/(s.load*s.link.B))
		if len(inFlight) >= mostFlows {
			continue // with γ above 0 a link without admission collapses in the end
		}
		bytes := meanBytes * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2)
		out = append(out, TransferObs{Tier: "peer", Link: "spine", Pair: fmt.Sprint("pair", i%7), Start: now,
			Queue: 4e-4 * math.Exp(s.noise*rng.NormFloat64()), Bytes: bytes})
		heap.Push(&inFlight, due{served + law.WireBytes(bytes), i})
	}
	advance(math.Inf(1))
	for i := range out {
		out[i].End = out[i].Start + (out[i].End-out[i].Start)*math.Exp(s.noise*rng.NormFloat64())
	}
	return out
}

type planted struct{ gamma, b1, load, noise float64 } // b1 and load as shares of B

// nightly is more of the same: some seconds each under the race detector.
var nightly = []planted{
	{0.05, 0.7, 0.6, 0.1}, {0.05, 0.8, 0.75, 0.1}, {0.2, 0.5, 0.3, 0.1}, {0, 0.5, 0.6, 0.1}, {0.1, 0, 0.6, 0.1},
	{0.1, 0.4, 0.9, 0.1}, {0.2, 0.6, 0.6, 0.1}, {0.3, 0.5, 0.45, 0.1},
}

// γ and b1 come back within 10 % from links under load, with noisy durations.
func TestSharedLinkRecovered(t *testing.T) {
	cases := []planted{{0.05, 0.5, 0.3, 0.05}, {0.1, 0.6, 0.6, 0.1}, {0, 0, 0.6, 0.1}, {0.05, 0.6, 0.9, 0.1}}
	if os.Getenv("KVWHATIF_NIGHTLY") != "" {
		cases = append(cases, nightly...)
	}
	for _, tc := range cases {
		name := fmt.Sprintf("γ=%v b1=%vB load=%v noise=%v", tc.gamma, tc.b1, tc.load, tc.noise)
		const b = 50e9
		s := shared{link: cost.Link{B: b, B1: tc.b1 * b, Gamma: tc.gamma}, load: tc.load, noise: tc.noise, n: 5000, seed: 3}
		fits, skipped := Transfers(s.run(), 50)
		require.Empty(t, skipped, name)
		require.Len(t, fits, 1, name)
		got := fits[0].Law
		t.Logf("%s: B %.3f b1 %.3f γ %.4f bend %.4f t0 %.2e; %s, error %.3f floor %.3f, c ≤ %.0f", name,
			got.Link.B/b, got.Link.B1/b, got.Link.Gamma, got.Bend, got.T0, fits[0].Quality.Form,
			fits[0].Quality.Error, fits[0].Quality.Floor, fits[0].Quality.MaxConcurrent)
		assert.InEpsilon(t, b, got.Link.B, 0.1, name)
		assert.InDelta(t, tc.gamma, got.Link.Gamma, max(0.1*tc.gamma, 0.005), name)
		if tc.b1 > 0 {
			assert.InEpsilon(t, tc.b1*b, got.Link.B1, 0.1, name)
		}
		assert.InEpsilon(t, 4e-4, got.T0, 0.05, name)
	}
}
