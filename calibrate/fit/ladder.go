package fit

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// WirePoint is one lone transfer of a published ladder: the whole of a fetch, its
// fixed costs within.
type WirePoint struct{ Bytes, Seconds float64 }

const (
	bendStep = 0.005
	bendMost = 0.3
	// bendPrior is the standard deviation, around 0, that a bend has before the
	// ladder is seen. A ladder has a handful of sizes: without it the bend follows
	// the noise of the smallest.
	bendPrior = 0.1
)

// Ladder fits t0 + S/B·(S/1 GiB)^−bend to lone transfers, the bend drawn towards
// 0. With nobody else on the link its capacity is what one flow reached. The
// covariance is over t0, cold, bend, b, b1, gamma, given the bend.
func Ladder(points []WirePoint) (cost.Transfer, schema.Quality, error) {
	y, cells := make([]float64, len(points)), make([]int64, len(points))
	q := schema.Quality{N: int64(len(points)), MaxConcurrent: 1, Form: "t0 + S/B, bent"}
	for i, p := range points {
		y[i], cells[i] = p.Seconds, cell(p.Bytes, 0)
		q.MaxBytes = max(q.MaxBytes, p.Bytes)
	}
	law, covariance, ok := bent(points)
	held, heldOK := holdOut(len(points), model{fit: func(train []int) (func(int) float64, bool) {
		law, _, ok := bent(pick(points, train))
		return func(i int) float64 { return law.Seconds(points[i].Bytes, 1) }, ok
	}})
	if !ok || !heldOK {
		return cost.Transfer{}, q, fmt.Errorf("transfer: %d lone transfers do not identify %s: more sizes are needed", len(points), q.Form)
	}
	q.Covariance = covariance
	describe(&q, y, held, cells)
	return law, q, nil
}

// bent searches the bend by steps; the rest is linear.
func bent(points []WirePoint) (law cost.Transfer, covariance []float64, ok bool) {
	var losses []float64
	least := math.Inf(1)
	for k := range int(bendMost/bendStep) + 1 {
		loss := math.Inf(1)
		if l, _, fine := affine(points, float64(k)*bendStep); fine {
			loss = relativeSquares(l, points)
		}
		losses, least = append(losses, loss), min(least, loss)
	}
	noise := least / math.Max(1, float64(len(points)-3))
	best := 0
	for k := range losses {
		losses[k] += noise * sq(float64(k)*bendStep/bendPrior)
		if losses[k] < losses[best] {
			best = k
		}
	}
	return affine(points, float64(best)*bendStep)
}

func relativeSquares(law cost.Transfer, points []WirePoint) float64 {
	sum := 0.0
	for _, p := range points {
		sum += sq(law.Seconds(p.Bytes, 1)/p.Seconds - 1)
	}
	return sum
}

func affine(points []WirePoint, bend float64) (cost.Transfer, []float64, bool) {
	unit := cost.Transfer{Bend: bend}
	x, y := make([][]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		x[i], y[i] = []float64{1, unit.WireBytes(p.Bytes)}, p.Seconds
	}
	l, ok := fitLinear(x, y, []bool{true, true}, 0)
	if !ok || !(l.values[1] > 0) {
		return cost.Transfer{}, nil, false
	}
	b := 1 / l.values[1]
	slope := -b * b // d(1/v)/dv
	covariance := make([]float64, 36)
	covariance[0], covariance[21] = l.covariance[0], l.covariance[3]*slope*slope
	covariance[3], covariance[18] = l.covariance[1]*slope, l.covariance[1]*slope
	return cost.Transfer{T0: l.values[0], Bend: bend, Link: cost.Link{B: b}}, covariance, true
}
