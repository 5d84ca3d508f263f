package fit

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

const (
	descents   = 40
	settled    = 1e-7 // of the loss, a step
	derivative = 1e-5
	minDamping = 1e-9
)

// descend is Levenberg and Marquardt's method on Huber's loss of the residuals,
// with the parameters clamped to what physics allows.
func (f wireForm) descend(flows []flow, at wire) (wireFit, bool) {
	free := f.free
	columns := indices(free[:])
	r := residuals(flows, at)
	sigma := spread(r)
	fit := wireFit{at: at, loss: huberLoss(r, sigma), columns: columns}
	damping := 1e-3
	normal, gradient := fit.linearise(flows, r, sigma)
	for range descents {
		next, nextR, ok := fit.tryStep(flows, normal, gradient, damping)
		loss := huberLoss(nextR, sigma)
		if !ok || !(loss <= fit.loss) {
			if damping *= 10; damping > 1e6 {
				break
			}
			continue
		}
		gained := fit.loss - loss
		fit.at, r = next, nextR
		sigma = spread(r)
		fit.loss = huberLoss(r, sigma)
		damping = max(minDamping, damping/10)
		normal, gradient = fit.linearise(flows, r, sigma)
		if gained <= settled*loss {
			break
		}
	}
	fit.normal = normal
	fit.sigma2 = sq(sigma)
	fit.loss = meanAbsOf(r)
	return fit, !math.IsNaN(fit.loss) && !math.IsInf(fit.loss, 0)
}

// tryStep solves the damped normal equations and gives the residuals there.
func (w wireFit) tryStep(flows []flow, normal *mat.SymDense, gradient *mat.VecDense, damping float64) (wire, []float64, bool) {
	k := len(w.columns)
	damped := mat.NewSymDense(k, nil)
	damped.CopySym(normal)
	for a := range k {
		damped.SetSym(a, a, normal.At(a, a)*(1+damping)+1e-12)
	}
	var chol mat.Cholesky
	var step mat.VecDense
	if !chol.Factorize(damped) || chol.SolveVecTo(&step, gradient) != nil {
		return wire{}, nil, false
	}
	next := w.at
	for a, col := range w.columns {
		next[col] -= step.AtVec(a)
	}
	next = next.clamp()
	return next, residuals(flows, next), true
}

// linearise gives JᵀWJ and JᵀWr over the free parameters, W being Huber's weights.
func (w wireFit) linearise(flows []flow, r []float64, sigma float64) (*mat.SymDense, *mat.VecDense) {
	k := len(w.columns)
	slopes := make([][]float64, k)
	for a, col := range w.columns {
		slopes[a] = w.slope(flows, r, col)
	}
	normal, gradient := mat.NewSymDense(k, nil), mat.NewVecDense(k, nil)
	for a := range k {
		for b := a; b < k; b++ {
			sum := 0.0
			for i := range r {
				sum += huberWeight(r[i], sigma) * slopes[a][i] * slopes[b][i]
			}
			normal.SetSym(a, b, sum)
		}
		sum := 0.0
		for i := range r {
			sum += huberWeight(r[i], sigma) * slopes[a][i] * r[i]
		}
		gradient.SetVec(a, sum)
	}
	return normal, gradient
}

// slope is the derivative of the residuals by one parameter, taken inwards where
// the parameter is on its bound.
func (w wireFit) slope(flows []flow, r []float64, col int) []float64 {
	moved := w.at
	moved[col] += derivative
	if moved.clamp() != moved {
		moved[col] = w.at[col] - derivative
	}
	by := moved[col] - w.at[col]
	out := residuals(flows, moved)
	for i := range out {
		out[i] = (out[i] - r[i]) / by
	}
	return out
}

// covariance is over bend, b, b1, gamma: the inverse of the information, carried
// from logarithms by the delta method. What is on its bound, or cannot be told
// apart, has none.
func (w wireFit) covariance() []float64 {
	out := make([]float64, 16)
	var chol mat.Cholesky
	var inverse mat.SymDense
	if !chol.Factorize(w.normal) || chol.InverseTo(&inverse) != nil {
		return out
	}
	b, b1 := math.Exp(w.at[logBAt]), w.at.b1()
	jacobian := mat.NewDense(4, len(w.columns), nil)
	for a, col := range w.columns {
		switch col {
		case logBAt:
			jacobian.Set(logBAt, a, b)
			jacobian.Set(logB1At, a, b1)
		case logB1At:
			jacobian.Set(logB1At, a, b1)
		default:
			jacobian.Set(col, a, 1)
		}
	}
	var left, full mat.Dense
	left.Mul(jacobian, &inverse)
	full.Mul(&left, jacobian.T())
	for i := range 4 {
		for j := range 4 {
			out[i*4+j] = full.At(i, j) * w.sigma2
		}
	}
	return out
}

// huberLoss is the mean of Huber's loss in units of sigma².
func huberLoss(r []float64, sigma float64) float64 {
	if r == nil {
		return math.Inf(1)
	}
	sum := 0.0
	for _, v := range r {
		a := math.Abs(v)
		if a <= huberK*sigma {
			sum += a * a / 2
		} else {
			sum += huberK * sigma * (a - huberK*sigma/2)
		}
	}
	return sum / float64(len(r))
}

func meanAbsOf(r []float64) float64 {
	sum := 0.0
	for _, v := range r {
		sum += math.Abs(v)
	}
	return sum / float64(len(r))
}
