package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPaired(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	covered := 0
	for range 200 {
		var a, b []float64
		var block []int
		for k := range 20 {
			weather := r.NormFloat64() // shared by the block, unlike between arms
			for range 30 {
				x := r.ExpFloat64()
				a, b, block = append(a, x), append(b, x+0.5+weather+0.2*r.NormFloat64()), append(block, k)
			}
		}
		d := Paired(a, b, block)
		assert.Equal(t, []int{600, 20}, []int{d.N, d.Blocks})
		if d.Lo < 0.5 && 0.5 < d.Hi {
			covered++
		}
	}
	assert.InDelta(t, 190, covered, 12, "95 %% intervals over blocks; independent requests would give a fraction")

	d := Paired([]float64{1, 2, math.NaN()}, []float64{2, 4, 9}, []int{0, 1, 2})
	assert.Equal(t, []any{1.5, 2}, []any{d.Mean, d.N})
	assert.True(t, math.IsNaN(d.Lo))
	assert.Contains(t, d.Why, "blocks")
	assert.Contains(t, Paired([]float64{1}, nil, nil).Why, "length")
}

func TestTailIndexOfPareto(t *testing.T) {
	for _, k := range []float64{0.2, 0.7, 1.5} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			sum := 0.0
			for seed := range uint64(50) {
				r := rand.New(rand.NewPCG(seed, 3))
				x := make([]float64, 2000)
				for i := range x {
					x[i] = math.Pow(1-r.Float64(), -k)
				}
				sum += tailIndex(x)
			}
			assert.InDelta(t, k, sum/50, 0.15)
		})
	}
	assert.True(t, math.IsNaN(tailIndex(make([]float64, 20))), "too few")
	assert.True(t, math.IsNaN(tailIndex(make([]float64, 2000))), "no tail")
}

// TestHeterogeneityTellsNoiseFromDifference: the test of equal δ keeps its level
// in small cells, and finds a difference that is there.
func TestHeterogeneityTellsNoiseFromDifference(t *testing.T) {
	alarms := func(shift float64) (n int) {
		for seed := range uint64(1000) {
			r := rand.New(rand.NewPCG(seed, 4))
			bins := make([]*bin, 5)
			for i := range bins {
				bins[i] = &bin{}
				for range 6 {
					bins[i].legs = append(bins[i].legs, control{diff: shift*float64(i) + r.NormFloat64(), weight: 2, batch: fmt.Sprint(len(bins[i].legs))})
				}
				bins[i].average()
			}
			if p, _ := heterogeneity(bins); p < 0.05 {
				n++
			}
		}
		return n
	}
	assert.InDelta(t, 50, alarms(0), 25)
	assert.Greater(t, alarms(1), 900)
}

func TestShrunk(t *testing.T) {
	assert.InDelta(t, 0.1, Shrunk(0.3, 0.1, 1e9, 1), 1e-6, "a noisy prediction says what the pair says")
	assert.InDelta(t, 0.3, Shrunk(0.3, 0.1, 0, 1), 1e-12)
	assert.True(t, math.IsNaN(Shrunk(0.3, math.NaN(), 1, 1)))
}
