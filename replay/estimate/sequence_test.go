package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"gonum.org/v1/gonum/stat/distuv"
)

const looks = 2000

// everWrong is the share of worlds in which a sequence missed the mean at any of
// its looks, and the lower 95 % bound of that share (Clopper and Pearson).
func everWrong(run func(r *rand.Rand) bool) (rate, lower float64) {
	wrong := 0.0
	for seed := range uint64(sequenceWorlds) {
		if run(rand.New(rand.NewPCG(seed, 21))) {
			wrong++
		}
	}
	if wrong == 0 {
		return 0, 0
	}
	return wrong / sequenceWorlds, distuv.Beta{Alpha: wrong, Beta: sequenceWorlds - wrong + 1}.Quantile(0.05)
}

func TestSequencesHoldAtEveryLook(t *testing.T) {
	const burnIn = 100
	skewed := func(r *rand.Rand) float64 { return math.Exp(0.5 * r.NormFloat64()) }
	mean := math.Exp(0.125)
	rate, lower := everWrong(func(r *rand.Rand) bool {
		s := NewSequence(0.05, burnIn)
		for range looks {
			s.Add(skewed(r))
			if i := s.Interval(); i.Lo > mean || i.Hi < mean {
				return true
			}
		}
		return false
	})
	t.Logf("asymptotic, burn-in %d, %d looks, %d worlds: ever wrong %.2f %% (at least %.2f %%)", burnIn, looks, sequenceWorlds, 100*rate, 100*lower)
	assert.LessOrEqual(t, lower, 0.05)

	rate, lower = everWrong(func(r *rand.Rand) bool {
		s := NewBernstein(0.05, 0, 4)
		for range looks {
			s.Add(4 * math.Sqrt(r.Float64()))
			if i := s.Interval(); i.Lo > 4*2./3 || i.Hi < 4*2./3 {
				return true
			}
		}
		return false
	})
	t.Logf("empirical Bernstein: ever wrong %.2f %% (at least %.2f %%)", 100*rate, 100*lower)
	assert.LessOrEqual(t, lower, 0.05)
}

// TestAFixedIntervalDoesNotHold shows that the test above can fail: an ordinary
// interval looked at as often is wrong far more often than it says.
func TestAFixedIntervalDoesNotHold(t *testing.T) {
	_, lower := everWrong(func(r *rand.Rand) bool {
		s := NewSequence(0.05, 100)
		for range looks {
			s.Add(r.NormFloat64())
			if i := s.Interval(); s.N() >= 100 && math.Abs((i.Lo+i.Hi)/2) > 1.96*i.SE {
				return true
			}
		}
		return false
	})
	assert.Greater(t, lower, 0.05)
}

func TestSequencesNarrow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	a, b := NewSequence(0.05, 50), NewBernstein(0.05, 0, 1)
	assert.True(t, math.IsInf(a.Interval().Hi, 1), "silent before the burn-in")
	assert.Equal(t, Interval{0, 1, math.NaN()}.Hi, b.Interval().Hi, "knows the range before any value")
	for range 20_000 {
		x := r.Float64()
		a.Add(x)
		b.Add(x)
	}
	assert.InDelta(t, 0.5, a.Interval().Hi, 0.02)
	assert.InDelta(t, 0.5, b.Interval().Hi, 0.03)
	b.Add(7)
	n, clipped := b.N()
	assert.Equal(t, []int{20_001, 1}, []int{n, clipped})
}
