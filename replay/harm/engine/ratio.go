package engine

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Ratio is what a statistic of one arm's TTFT is of the other's. The bounds are by
// a bootstrap over pairs of blocks: its standard error of the logarithm, and
// Student's t.
type Ratio struct {
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`   // of the 95 % interval
	High  float64 `json:"high"`  // of the 95 % interval
	Upper float64 `json:"upper"` // one-sided 95 % bound
	Pairs int     `json:"pairs"`
}

// resamples of a bootstrap.
const resamples = 4000

// pair is the TTFT of two blocks, seconds: the denominator's and the numerator's.
type pair [2][]float64

// compare gives the ratio of the means and that of the 90th percentiles, of all
// requests of each arm.
func compare(pairs []pair, seed uint64) (mean, p90 Ratio) {
	return compareBy(pairs, seed, resamples)
}

func compareBy(pairs []pair, seed uint64, resamples int) (mean, p90 Ratio) {
	n := len(pairs)
	sides := [2]side{sideOf(pairs, 0), sideOf(pairs, 1)}
	of := func(weight []int) (m, q float64) {
		return math.Log(sides[1].mean(weight) / sides[0].mean(weight)), math.Log(sides[1].quantile(0.9, weight) / sides[0].quantile(0.9, weight))
	}
	weight := make([]int, n)
	for i := range weight {
		weight[i] = 1
	}
	logMean, logP90 := of(weight)
	rng := rand.New(rand.NewPCG(seed, 0x6861726d))
	means, p90s := make([]float64, resamples), make([]float64, resamples)
	for i := range resamples {
		clear(weight)
		for range n {
			weight[rng.IntN(n)]++
		}
		means[i], p90s[i] = of(weight)
	}
	return ratioOf(logMean, stat.StdDev(means, nil), n), ratioOf(logP90, stat.StdDev(p90s, nil), n)
}

// ratioOf makes bounds of a standard error. The bootstrap's own is too small by
// √((n−1)/n).
func ratioOf(log, se float64, n int) Ratio {
	se *= math.Sqrt(float64(n) / float64(n-1))
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	two, one := t.Quantile(0.975)*se, t.Quantile(0.95)*se
	return Ratio{Ratio: math.Exp(log), Low: math.Exp(log - two), High: math.Exp(log + two), Upper: math.Exp(log + one), Pairs: n}
}

// side is all of one arm's requests.
type side struct {
	sorted []from
	sum    []float64 // by pair
	count  []int     // by pair
}

type from struct {
	ttft float64
	pair int
}

func sideOf(pairs []pair, k int) side {
	s := side{sum: make([]float64, len(pairs)), count: make([]int, len(pairs))}
	for i, p := range pairs {
		for _, x := range p[k] {
			s.sorted = append(s.sorted, from{x, i})
			s.sum[i] += x
			s.count[i]++
		}
	}
	slices.SortFunc(s.sorted, func(a, b from) int {
		switch {
		case a.ttft < b.ttft:
			return -1
		case a.ttft > b.ttft:
			return 1
		}
		return 0
	})
	return s
}

func (s *side) mean(weight []int) float64 {
	sum, n := 0.0, 0
	for i, w := range weight {
		sum += float64(w) * s.sum[i]
		n += w * s.count[i]
	}
	return sum / float64(n)
}

// quantile is by the nearest rank.
func (s *side) quantile(q float64, weight []int) float64 {
	n := 0
	for i, w := range weight {
		n += w * s.count[i]
	}
	rank, below := int(math.Ceil(q*float64(n))), 0
	for _, f := range s.sorted {
		if below += weight[f.pair]; below >= rank {
			return f.ttft
		}
	}
	return math.NaN()
}
