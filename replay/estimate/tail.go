package estimate

import (
	"math"
	"sort"
)

// minTailPoints is the least number of points that a tail is fitted to.
const minTailPoints = 10

// tailIndex is Pareto's k of the largest of x: below 0.5 the variance is finite,
// below 0.7 the mean is reliable in practice, above 1 it need not exist (Vehtari,
// Simpson, Gelman, Yao and Gabry 2024). The tail is min(n/5, 3√n) points, the
// fit that of Zhang and Stephens (2009). NaN with fewer than 10 points of tail.
func tailIndex(x []float64) float64 {
	n := float64(len(x))
	m := int(math.Min(n/5, 3*math.Sqrt(n)))
	if m < minTailPoints {
		return math.NaN()
	}
	sorted := append([]float64(nil), x...)
	sort.Float64s(sorted)
	cut := sorted[len(sorted)-m-1]
	tail := make([]float64, m)
	for i := range tail {
		tail[i] = sorted[len(sorted)-m+i] - cut
	}
	if tail[0] <= 0 || tail[m-1] <= 0 {
		return math.NaN() // ties at the cut: no tail to speak of
	}
	return shrinkTail(generalisedPareto(tail), float64(m))
}

// shrinkTail pulls k towards 0.5 as ten points would, which steadies short tails.
func shrinkTail(k, n float64) float64 { return (k*n + 0.5*10) / (n + 10) }

// generalisedPareto estimates k of rising x above 0 by Zhang and Stephens' mean
// over a profile of θ.
func generalisedPareto(x []float64) float64 {
	n := float64(len(x))
	m := 30 + int(math.Sqrt(n))
	quarter := x[int(n/4+0.5)-1]
	theta, length := make([]float64, m), make([]float64, m)
	for i := range theta {
		theta[i] = 1/x[len(x)-1] + (1-math.Sqrt(float64(m)/(float64(i)+0.5)))/(3*quarter)
		k := meanLog(x, theta[i])
		length[i] = n * (math.Log(-theta[i]/k) - k - 1)
	}
	best := 0.0
	for i := range theta {
		sum := 0.0
		for j := range length {
			sum += math.Exp(length[j] - length[i])
		}
		if sum > 0 && !math.IsInf(sum, 0) {
			best += theta[i] / sum
		}
	}
	return meanLog(x, best)
}

func meanLog(x []float64, theta float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Log1p(-theta * v)
	}
	return sum / float64(len(x))
}
