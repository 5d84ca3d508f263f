package fleet

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// drain runs a link with no further arrivals and gives each flow's end.
func drain(l *link, n int) []float64 {
	out := make([]float64, n)
	for !math.IsInf(l.next(), 1) {
		t := l.next()
		if id := l.step(); id >= 0 {
			out[id] = t
		}
	}
	return out
}

func TestLinkIsTheLawOfTheCostModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, law := range []cost.Link{{B: 50e9}, {B: 50e9, Gamma: 0.1}, {B: 50e9, B1: 9e9}, {B: 50e9, B1: 12e9, Gamma: 0.05}} {
		for _, n := range []int{0, 1, 2, 3, 16, 39} {
			l, sizes := link{law: law}, make([]float64, n)
			for i := range sizes {
				sizes[i] = math.Floor(1e9 * rng.ExpFloat64())
				l.add(0, sizes[i], 1, int32(i))
			}
			want := cost.Drain(law, sizes)
			for i, got := range drain(&l, n) {
				require.InEpsilon(t, want[i], got, 1e-9, "%+v, flow %d of %d", law, i, n)
			}
		}
	}
}

// A link that is never idle moves B a second, whatever the shares.
func TestLinkConservesWork(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	l, total, busy, last := link{law: cost.Link{B: 50e9}}, 0.0, 0.0, 0.0
	ended := 0
	const n = 5_000
	for i := range n {
		at := last + 0.02*rng.ExpFloat64()
		for l.next() <= at {
			t := l.next()
			busy, last = busy+t-last, t
			if l.step() >= 0 {
				ended++
			}
		}
		if len(l.flows) > 0 {
			busy += at - last
		}
		last = at
		bytes := 1e9 * rng.ExpFloat64()
		total += bytes
		l.add(at, bytes, math.Exp(0.3*rng.NormFloat64()), int32(i))
	}
	for !math.IsInf(l.next(), 1) {
		t := l.next()
		busy, last = busy+t-last, t
		l.step()
		ended++
	}
	require.Equal(t, n, ended)
	require.InEpsilon(t, total/50e9, busy, 1e-9)
}

// Two flows, one of three times the weight, have shares of 1 and 3.
func TestLinkWeights(t *testing.T) {
	l := link{law: cost.Link{B: 40}}
	l.add(0, 30, 3, 0) // 30/s
	l.add(0, 20, 1, 1) // 10/s for 1 s, then 40/s
	got := drain(&l, 2)
	require.InDelta(t, 1, got[0], 1e-12)
	require.InDelta(t, 1.25, got[1], 1e-12)
}

func TestBackgroundTakesItsShare(t *testing.T) {
	b := Background{Period: 4, Duty: 0.2, Depth: 0.25}
	lost, until := 0.0, 0.0
	const end = 40_000.0
	for at := 0.0; at < end; at = until {
		var share float64
		share, until = b.capacity(1, at)
		require.Greater(t, until, at)
		require.Greater(t, share, 0.0)
		lost += (1 - share) * (until - at)
	}
	require.InEpsilon(t, b.Duty*b.Depth, lost/end, 0.03)
	share, until := Background{}.capacity(1, 3)
	require.Equal(t, []float64{1, math.Inf(1)}, []float64{share, until})
}
