package fit

import (
	"math"
	"slices"
)

const (
	blocks      = 5  // of time
	ladderBelow = 25 // points: leave one out instead
)

// model is one form that could be fitted to points 0 to n−1, which are in order of
// time. fit gives a predictor of any point from the points in train; ok is false
// where they do not identify the form.
type model struct {
	name string
	fit  func(train []int) (predict func(i int) float64, ok bool)
}

// validated is what cross-validation says of the form that it chose.
type validated struct {
	chosen int
	held   []float64 // prediction of each point by the fit that did not see it
	errors []float64 // mean relative error of each form; NaN where it was not identified
}

// crossValidate chooses among models, simplest first. ok is false where none can
// be fitted.
func crossValidate(y []float64, models []model) (validated, bool) {
	out := validated{chosen: -1, errors: make([]float64, len(models))}
	held := make([][]float64, len(models))
	relative := make([][]float64, len(models))
	best := -1
	if len(y) < 2 {
		return out, false
	}
	for m := range models {
		out.errors[m] = math.NaN()
		predictions, ok := holdOut(len(y), models[m])
		if !ok {
			continue
		}
		held[m], relative[m] = predictions, relativeErrors(y, predictions)
		out.errors[m] = mean(relative[m])
		if best < 0 || out.errors[m] < out.errors[best] {
			best = m
		}
	}
	if best < 0 {
		return out, false
	}
	for m := range models {
		// The errors of a ladder's few sizes differ by size, not by chance: no margin.
		if relative[m] != nil && (m == best || len(y) >= ladderBelow && notWorse(relative[m], relative[best])) {
			out.chosen, out.held = m, held[m]
			return out, true
		}
	}
	return out, false
}

// notWorse says that a's mean is within one standard error of b's, paired.
func notWorse(a, b []float64) bool {
	difference := make([]float64, len(a))
	for i := range a {
		difference[i] = a[i] - b[i]
	}
	m := mean(difference)
	sum := 0.0
	for _, d := range difference {
		sum += sq(d - m)
	}
	n := float64(len(a))
	return m <= math.Sqrt(sum/math.Max(1, n-1)/n)
}

func holdOut(n int, m model) ([]float64, bool) {
	held := make([]float64, n)
	for _, fold := range folds(n) {
		train := make([]int, 0, n-(fold[1]-fold[0]))
		for i := range n {
			if i < fold[0] || i >= fold[1] {
				train = append(train, i)
			}
		}
		predict, ok := m.fit(train)
		if !ok {
			return nil, false
		}
		for i := fold[0]; i < fold[1]; i++ {
			held[i] = predict(i)
		}
	}
	return held, true
}

// folds are the [from, until) that are held out in turn.
func folds(n int) [][2]int {
	k := blocks
	if n < ladderBelow {
		k = n
	}
	out := make([][2]int, 0, k)
	for b := range k {
		out = append(out, [2]int{b * n / k, (b + 1) * n / k})
	}
	return out
}

func relativeErrors(y, predicted []float64) []float64 {
	out := make([]float64, len(y))
	for i := range y {
		out[i] = math.Abs(predicted[i]-y[i]) / math.Max(math.Abs(y[i]), 1e-9)
	}
	return out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// residualQuantiles gives the 5, 25, 50, 75 and 95 % of observed − predicted.
func residualQuantiles(y, predicted []float64) (out [5]float64) {
	r := make([]float64, len(y))
	for i := range y {
		r[i] = y[i] - predicted[i]
	}
	slices.Sort(r)
	for i, q := range [...]float64{0.05, 0.25, 0.5, 0.75, 0.95} {
		out[i] = quantile(r, q)
	}
	return out
}

// repeatNoise is the mean relative error that would remain if the mean of every
// cell were known: of points in one cell (equal keys) half the variance of a
// difference is noise. It is 0 where fewer than 5 % of points have a twin.
func repeatNoise(cells []int64, y, predicted []float64) float64 {
	order := make([]int, len(y))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(1, max(-1, cells[a]-cells[b]))) })
	sum, pairs := 0.0, 0
	for k := 1; k < len(order); k++ {
		a, b := order[k-1], order[k]
		if cells[a] == cells[b] && predicted[a] > 0 && predicted[b] > 0 {
			sum += math.Abs(y[a]/predicted[a] - y[b]/predicted[b])
			pairs++
		}
	}
	if pairs*20 < len(y) || pairs == 0 {
		return 0
	}
	return sum / float64(pairs) / math.Sqrt2
}

// cell numbers sizes that differ by less than 4 %.
func cell(a, b float64) int64 {
	const perOctave = 16
	of := func(v float64) int64 { return int64(math.Round(perOctave * math.Log2(1+math.Max(0, v)))) }
	return of(a)<<20 | of(b)
}
