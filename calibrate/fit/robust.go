package fit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

const (
	huberK     = 1.345 // 95 % efficient on normal errors (Huber 1964)
	madToSigma = 1.4826
	iterations = 50
	converged  = 1e-10
	// singular is the reciprocal condition number, of scaled columns, below which
	// two columns say the same.
	singular = 1e-10
)

// linear is a fitted linear form.
type linear struct {
	values     []float64
	covariance []float64 // row-major
}

func (l linear) predict(x []float64) float64 {
	sum := 0.0
	for i, v := range l.values {
		sum += v * x[i]
	}
	return sum
}

// fitLinear fits y ≈ x·values by Huber's loss on errors relative to the
// prediction, with every value of index at least 0 where nonNegative says so.
// floor is added to the prediction in the weight, for y that can be 0. ok is false
// where the columns cannot be told apart or there are too few rows.
func fitLinear(x [][]float64, y []float64, nonNegative []bool, floor float64) (linear, bool) {
	free := make([]bool, len(nonNegative))
	for i := range free {
		free[i] = true
	}
	for range free {
		fitted, ok := fitFree(x, y, free, floor)
		if !ok {
			return linear{}, false
		}
		worst := mostNegative(fitted, x, nonNegative)
		if worst < 0 {
			return fitted, true
		}
		free[worst] = false
	}
	return linear{}, false
}

// mostNegative finds the value that breaks its bound by the most seconds; −1
// where none does.
func mostNegative(l linear, x [][]float64, nonNegative []bool) int {
	worst, least := -1, 0.0
	for i, v := range l.values {
		if !nonNegative[i] || v >= 0 {
			continue
		}
		size := 0.0
		for _, row := range x {
			size += math.Abs(row[i])
		}
		if v*size < least {
			worst, least = i, v*size
		}
	}
	return worst
}

// fitFree is iteratively reweighted least squares over the free columns. The
// first pass weighs by 1/y; later ones by 1/prediction, for weights that hold the
// noise of y pull a fit low.
func fitFree(x [][]float64, y []float64, free []bool, floor float64) (linear, bool) {
	columns := indices(free)
	if len(columns) == 0 || len(y) < len(columns) {
		return linear{}, false
	}
	weight := make([]float64, len(y))
	for i := range y {
		weight[i] = 1 / sq(math.Abs(y[i])+floor)
	}
	last := linear{}
	for range iterations {
		next, ok := solve(x, y, weight, columns, len(free))
		if !ok {
			return linear{}, false
		}
		done := last.values != nil && close2(next.values, last.values)
		last = next
		if done {
			break
		}
		reweigh(weight, x, y, next, floor)
	}
	return last, true
}

// reweigh sets weight to Huber's over the square of the prediction.
func reweigh(weight []float64, x [][]float64, y []float64, l linear, floor float64) {
	relative := make([]float64, len(y))
	scale := make([]float64, len(y))
	for i := range y {
		p := l.predict(x[i])
		// A prediction far off the observation is an unsettled fit: half of y bounds it.
		scale[i] = math.Max(math.Abs(p), math.Abs(y[i])/2) + floor
		relative[i] = (y[i] - p) / scale[i]
	}
	sigma := spread(relative)
	for i := range weight {
		weight[i] = huberWeight(relative[i], sigma) / sq(scale[i])
	}
}

func huberWeight(residual, sigma float64) float64 {
	if r := math.Abs(residual); r > huberK*sigma && r > 0 {
		return huberK * sigma / r
	}
	return 1
}

// spread is the normal-consistent median absolute residual, never 0.
func spread(residuals []float64) float64 {
	abs := make([]float64, len(residuals))
	for i, r := range residuals {
		abs[i] = math.Abs(r)
	}
	slices.Sort(abs)
	return math.Max(1e-9, madToSigma*quantile(abs, 0.5))
}

// solve is weighted least squares over columns, scaled so that the condition
// number means something.
func solve(x [][]float64, y, weight []float64, columns []int, width int) (linear, bool) {
	scale, ok := columnScale(x, weight, columns)
	if !ok {
		return linear{}, false
	}
	normal, right := normalEquations(x, y, weight, columns, scale)
	var chol mat.Cholesky
	if !chol.Factorize(normal) || !(1/chol.Cond() > singular) {
		return linear{}, false
	}
	var v mat.VecDense
	var inverse mat.SymDense
	if chol.SolveVecTo(&v, right) != nil || chol.InverseTo(&inverse) != nil {
		return linear{}, false
	}
	out := linear{values: make([]float64, width), covariance: make([]float64, width*width)}
	for a, col := range columns {
		out.values[col] = v.AtVec(a) / scale[a]
	}
	variance := residualVariance(x, y, weight, out, len(columns))
	for a, ca := range columns {
		for b, cb := range columns {
			out.covariance[ca*width+cb] = variance * inverse.At(a, b) / (scale[a] * scale[b])
		}
	}
	return out, true
}

// columnScale is the weighted length of each column; ok is false where one is 0.
func columnScale(x [][]float64, weight []float64, columns []int) (scale []float64, ok bool) {
	scale = make([]float64, len(columns))
	for i, row := range x {
		for a, col := range columns {
			scale[a] += weight[i] * sq(row[col])
		}
	}
	for a := range scale {
		if scale[a] = math.Sqrt(scale[a]); !(scale[a] > 0) {
			return nil, false
		}
	}
	return scale, true
}

// normalEquations are XᵀWX and XᵀWy over scaled columns.
func normalEquations(x [][]float64, y, weight []float64, columns []int, scale []float64) (*mat.SymDense, *mat.VecDense) {
	k := len(columns)
	normal, right := make([]float64, k*k), make([]float64, k)
	for i, row := range x {
		for a, ca := range columns {
			wa := weight[i] * row[ca] / scale[a]
			right[a] += wa * y[i]
			for b := a; b < k; b++ {
				normal[a*k+b] += wa * row[columns[b]] / scale[b]
			}
		}
	}
	return mat.NewSymDense(k, normal), mat.NewVecDense(k, right)
}

// residualVariance is the mean weighted squared residual over the degrees of
// freedom that are left; 0 where none are.
func residualVariance(x [][]float64, y, weight []float64, l linear, used int) float64 {
	if len(y) <= used {
		return 0
	}
	sum := 0.0
	for i := range y {
		sum += weight[i] * sq(y[i]-l.predict(x[i]))
	}
	return sum / float64(len(y)-used)
}

func indices(set []bool) []int {
	var out []int
	for i, in := range set {
		if in {
			out = append(out, i)
		}
	}
	return out
}

func close2(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > converged*(math.Abs(a[i])+math.Abs(b[i])) {
			return false
		}
	}
	return true
}

func sq(v float64) float64 { return v * v }

// quantile is of sorted values, by linear interpolation; NaN of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}
