package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Restore fits the restoration law of one (model, tier). The covariance is over
// d0, d1. Where restoring takes no time (layer streaming) the law is 0.
func Restore(obs []RestoreObs) (cost.Restore, schema.Quality, error) {
	obs = slices.DeleteFunc(slices.Clone(obs), func(o RestoreObs) bool { return !(o.Bytes > 0) || !(o.Seconds >= 0) })
	slices.SortStableFunc(obs, func(a, b RestoreObs) int { return compareInt(a.At, b.At) })
	y, cells := make([]float64, len(obs)), make([]int64, len(obs))
	q := schema.Quality{N: int64(len(obs)), MaxConcurrent: 1, Form: "0", Covariance: make([]float64, 4)}
	any := false
	for i, o := range obs {
		y[i], cells[i] = o.Seconds, cell(o.Bytes, 0)
		q.MaxBytes = max(q.MaxBytes, o.Bytes)
		any = any || o.Seconds > 0
	}
	if !any && len(obs) > 0 {
		return cost.Restore{}, q, nil
	}
	floor := floorOf(y)
	forms := []linearModel{
		{name: "d1·S", y: y, floor: floor, x: rowsOf(obs, func(o RestoreObs) []float64 { return []float64{o.Bytes} })},
		{name: "d0 + d1·S", y: y, floor: floor, x: rowsOf(obs, func(o RestoreObs) []float64 { return []float64{1, o.Bytes} })},
	}
	chosen, fitted, err := fitForms(forms, y, cells, &q)
	if err != nil {
		return cost.Restore{}, q, fmt.Errorf("restore: %w", err)
	}
	in := []bool{chosen == 1, true}
	v := spreadOut(fitted.values, in)
	q.Covariance = widen(fitted.covariance, in)
	return cost.Restore{D0: v[0], D1: v[1]}, q, nil
}

// dust is what counts as no time at all, seconds: clocks do not tell less.
const dust = 1e-6

// floorOf is a tenth of the median of what is above dust: below it an error counts
// as seconds, not as a share.
func floorOf(y []float64) float64 {
	var positive []float64
	for _, v := range y {
		if v > dust {
			positive = append(positive, v)
		}
	}
	slices.Sort(positive)
	if m := quantile(positive, 0.5); !math.IsNaN(m) {
		return m / 10
	}
	return dust
}

// Queue fits what reported GPU queues are worth, and ω. The covariance is over
// bias, slope, omega.
func Queue(obs []QueueObs, stalls []StallObs) (schema.QueueFit, error) {
	obs = slices.DeleteFunc(slices.Clone(obs), func(o QueueObs) bool { return !(o.Reported >= 0) || !(o.Observed >= 0) })
	slices.SortStableFunc(obs, func(a, b QueueObs) int { return compareInt(a.At, b.At) })
	y, cells := make([]float64, len(obs)), make([]int64, len(obs))
	for i, o := range obs {
		y[i], cells[i] = o.Observed, cell(o.Reported*1e3, 0)
	}
	q := schema.Quality{N: int64(len(obs)), MaxConcurrent: 1}
	// Most queues are empty: an error below the mean wait counts as seconds, or the
	// empty ones would say that no queue is worth anything.
	floor := max(mean(y), dust)
	forms := []linearModel{
		{name: "slope·Q", y: y, floor: floor, x: rowsOf(obs, func(o QueueObs) []float64 { return []float64{o.Reported} })},
		{name: "bias + slope·Q", y: y, floor: floor, signed: []bool{true, false},
			x: rowsOf(obs, func(o QueueObs) []float64 { return []float64{1, o.Reported} })},
	}
	chosen, fitted, err := fitForms(forms, y, cells, &q)
	if err != nil {
		return schema.QueueFit{Quality: q}, fmt.Errorf("queue: %w", err)
	}
	in := []bool{chosen == 1, true, false}
	v := spreadOut(fitted.values, in)
	q.Covariance = widen(fitted.covariance, in)
	// Queues are often empty: errors are relative to the mean wait, not to each.
	q.Error = meanAbs(q.Residuals) / floor
	q.Floor = repeatNoise(cells, y, slices.Repeat([]float64{floor}, len(y)))
	omega, variance := Omega(stalls)
	q.Covariance[8] = variance
	return schema.QueueFit{Bias: v[0], Slope: v[1], Omega: omega, Quality: q}, nil
}

func meanAbs(v [5]float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Abs(x)
	}
	return sum / float64(len(v))
}

// Omega fits ω in stall = max(0, X − Qg) + ω·min(Qg, X), 0 to 1, and its
// variance. Fetches that found a free slot say nothing of it; without others it
// is 0.
func Omega(stalls []StallObs) (omega, variance float64) {
	var x [][]float64
	var y []float64
	for _, s := range stalls {
		if overlap := min(s.GPUQueue, s.Fetched); overlap > dust && s.Stall >= 0 {
			x = append(x, []float64{1})
			y = append(y, (s.Stall-max(0, s.Fetched-s.GPUQueue))/overlap)
		}
	}
	if len(y) < 20 {
		return 0, 0
	}
	fitted, ok := fitLinear(x, y, []bool{true}, 1)
	if !ok {
		return 0, 0
	}
	return min(1, fitted.values[0]), fitted.covariance[0]
}
