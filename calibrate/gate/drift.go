package gate

import (
	"math"
	"slices"
)

// DefaultShift is the shift of log(observed/predicted) that is looked for: that
// of a fifth of the bandwidth lost, log(1/0.8).
const DefaultShift = 0.2231

// Drift looks for a shift of the champion's log residuals, either way, by
// Page's cumulative sums of the log-likelihood ratio (Page 1954). A shift of Shift
// is found after about 2σ²·ln(1/Alpha)/Shift² residuals; where nothing drifts, at
// least 1/Alpha residuals pass on average until a false one.
type Drift struct {
	Shift float64 // 0: DefaultShift
	Sigma float64 // of the log residuals while nothing drifts; 0: of the residuals themselves
	Alpha float64 // 0: 0.001
}

// DriftFound is what Test found.
type DriftFound struct {
	Found     bool
	At        int     // index of the residual at which it was found
	Since     int     // index from which on the shift is likely
	Up        bool    // observed takes longer than predicted
	Statistic float64 // the largest sum
	Threshold float64
	Sigma     float64
	N         int
}

// LogResiduals gives log(observed/champion) of cases, in order of time, without
// those that the champion says nothing of.
func LogResiduals(cases []Case) []float64 {
	sorted := slices.Clone(cases)
	slices.SortStableFunc(sorted, func(a, b Case) int { return int(min(1, max(-1, a.AtNanos-b.AtNanos))) })
	out := make([]float64, 0, len(sorted))
	for _, c := range sorted {
		if r := math.Log(c.Observed / c.Champion); !math.IsNaN(r) && !math.IsInf(r, 0) {
			out = append(out, r)
		}
	}
	return out
}

// Test runs over log residuals in order of time. A residual beyond 4σ counts as
// 4σ: one outlier is no drift.
func (d Drift) Test(residuals []float64) DriftFound {
	if d.Shift == 0 {
		d.Shift = DefaultShift
	}
	if d.Alpha == 0 {
		d.Alpha = 0.001
	}
	if d.Sigma == 0 {
		d.Sigma = robustSigma(residuals)
	}
	out := DriftFound{Threshold: math.Log(1 / d.Alpha), Sigma: d.Sigma, N: len(residuals)}
	up, down := side{}, side{}
	for i, r := range residuals {
		r = max(-4*d.Sigma, min(4*d.Sigma, r))
		weight := d.Shift / (d.Sigma * d.Sigma)
		up.add(weight*(r-d.Shift/2), i)
		down.add(weight*(-r-d.Shift/2), i)
		out.Statistic = max(out.Statistic, up.sum, down.sum)
		if max(up.sum, down.sum) >= out.Threshold {
			out.Found, out.At, out.Up, out.Since = true, i, up.sum >= down.sum, up.since
			if !out.Up {
				out.Since = down.since
			}
			return out
		}
	}
	return out
}

type side struct {
	sum   float64
	since int
}

func (s *side) add(v float64, i int) {
	if s.sum == 0 {
		s.since = i
	}
	s.sum = max(0, s.sum+v)
}

// robustSigma is from the differences of neighbours, which a shift in the middle
// does not widen; never 0.
func robustSigma(v []float64) float64 {
	if len(v) < 2 {
		return 1
	}
	d := make([]float64, len(v)-1)
	for i := range d {
		d[i] = math.Abs(v[i+1] - v[i])
	}
	slices.Sort(d)
	return max(1e-6, 1.4826*d[len(d)/2]/math.Sqrt2)
}
