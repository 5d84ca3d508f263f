package engine

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
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

// pair is the TTFT of two blocks, seconds: the denominator's and the numerator's;
// and how much of the machine others took in each.
type pair struct {
	ttft   [2][]float64
	waited [2]float64 // share, 0 to 1
}

// compare gives the ratio of the means and that of the 90th percentiles, of all
// requests of each arm: as they are, or adjusted for what others took of the machine.
func compare(pairs []pair, adjusted bool, seed uint64) (mean, p90 Ratio) {
	return compareBy(pairs, adjusted, seed, resamples)
}

func compareBy(pairs []pair, adjusted bool, seed uint64, resamples int) (mean, p90 Ratio) {
	n := len(pairs)
	sides := [2]side{sideOf(pairs, 0), sideOf(pairs, 1)}
	weight := make([]int, n)
	for i := range weight {
		weight[i] = 1
	}
	of := func() [2]float64 {
		return [2]float64{math.Log(sides[1].mean(weight) / sides[0].mean(weight)), math.Log(sides[1].quantile(0.9, weight) / sides[0].quantile(0.9, weight))}
	}
	whole, wholeLoad := of(), loadOf(pairs, weight)
	rng := rand.New(rand.NewPCG(seed, 0x6861726d))
	logs, loads := [2][]float64{make([]float64, resamples), make([]float64, resamples)}, make([][controls]float64, resamples)
	for i := range resamples {
		clear(weight)
		for range n {
			weight[rng.IntN(n)]++
		}
		x := of()
		logs[0][i], logs[1][i], loads[i] = x[0], x[1], loadOf(pairs, weight)
	}
	var out [2]Ratio
	for k := range out {
		if adjusted {
			whole[k] = adjust(logs[k], loads, whole[k], wholeLoad)
		}
		out[k] = ratioOf(whole[k], stat.StdDev(logs[k], nil), n)
	}
	return out[0], out[1]
}

// controls is how many variates a ratio is adjusted by: the block's load enters as
// the logarithm of its slowdown 1/(1 − waited), and as the slowdown.
const controls = 2

// loadOf is the mean over pairs of how much more the second block's load was.
func loadOf(pairs []pair, weight []int) (out [controls]float64) {
	n := 0.0
	for i, p := range pairs {
		w := float64(weight[i])
		slow := [2]float64{1 / (1 - min(p.waited[0], 0.99)), 1 / (1 - min(p.waited[1], 0.99))}
		out[0] += w * math.Log(slow[1]/slow[0])
		out[1] += w * (slow[1] - slow[0])
		n += w
	}
	out[0], out[1] = out[0]/n, out[1]/n
	return out
}

// adjust takes from a logarithm, and from each of its resamples, what the loads
// explain of it: control variates (Lavenberg and Welch 1981), whose mean is 0 since
// the order within a pair is random. It returns the adjusted logarithm.
func adjust(logs []float64, loads [][controls]float64, whole float64, wholeLoad [controls]float64) float64 {
	x, y := mat.NewDense(len(logs), controls+1, nil), mat.NewVecDense(len(logs), logs)
	for i, l := range loads {
		x.SetRow(i, []float64{1, l[0], l[1]})
	}
	var b mat.VecDense
	if err := b.SolveVec(x, y); err != nil {
		return whole // the loads do not differ: there is nothing to adjust for
	}
	for i, l := range loads {
		logs[i] -= b.AtVec(1)*l[0] + b.AtVec(2)*l[1]
	}
	return whole - b.AtVec(1)*wholeLoad[0] - b.AtVec(2)*wholeLoad[1]
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
		for _, x := range p.ttft[k] {
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
