package gate

import (
	"cmp"
	"math"
	"slices"
)

const (
	// FalsePerWeek is how many drifts a week Watch finds on a path and link where
	// nothing drifts, if it is run once an hour.
	FalsePerWeek = 0.1
	hoursOfWeek  = 168
	// leastWatched is how many residuals a drift is looked for in.
	leastWatched = 200
	// watchBlocks of time are what the spread of correlated residuals is taken from.
	watchBlocks = 40
	// ofForty is by how much a spread from so few blocks may be low.
	ofForty = 1.25
)

// Drifted is what Watch found of one path and link.
type Drifted struct {
	Path, Link string
	DriftFound
	SinceNanos int64   // Unix nanoseconds from which on the shift is likely; 0 where none was found
	Shift      float64 // mean of observed by predicted since then, less 1; NaN where none was found
}

// Watch looks for a drift of the champion on each path and link by itself. Paths and
// links with fewer than 200 predicted cases are left out: of them nothing is known.
//
// Requests that follow each other wait in the same queues, so their residuals are
// alike; a test that took them for independent would find a drift in every window.
// Here σ is that of sums over blocks of time, and the threshold is set so that 168
// windows find FalsePerWeek at most: n residuals cross ln(1/α) on either side with
// probability 2nα or less.
func Watch(cases []Case) []Drifted {
	groups := map[[2]string][]Case{}
	for _, c := range cases {
		if r := c.logResidual(); !math.IsNaN(r) && !math.IsInf(r, 0) {
			key := [2]string{c.Slice.Path, c.Slice.Link}
			groups[key] = append(groups[key], c)
		}
	}
	var out []Drifted
	for key, group := range groups {
		if len(group) < leastWatched {
			continue
		}
		slices.SortStableFunc(group, func(a, b Case) int { return cmp.Compare(a.AtNanos, b.AtNanos) })
		out = append(out, watch(key, group))
	}
	slices.SortFunc(out, func(a, b Drifted) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Link, b.Link)) })
	return out
}

func (c Case) logResidual() float64 { return math.Log(c.Observed / c.Champion) }

func watch(key [2]string, group []Case) Drifted {
	residuals := LogResiduals(group)
	sigma := robustSigma(residuals)
	for i, r := range residuals { // one outlier is no drift
		residuals[i] = max(-4*sigma, min(4*sigma, r))
	}
	n := len(residuals)
	found := Drift{Sigma: max(sigma, sumSigma(residuals)), Alpha: FalsePerWeek / (2 * hoursOfWeek * float64(n))}.Test(residuals)
	out := Drifted{Path: key[0], Link: key[1], DriftFound: found, Shift: math.NaN()}
	if found.Found {
		out.SinceNanos = group[found.Since].AtNanos
		observed, predicted := 0.0, 0.0
		for _, c := range group[found.Since:] {
			observed, predicted = observed+c.Observed, predicted+c.Champion
		}
		out.Shift = observed/predicted - 1
	}
	return out
}

// sumSigma is the σ that independent residuals with sums as wide as these would have,
// from the differences of neighbouring blocks of time, which a shift does not widen.
func sumSigma(v []float64) float64 {
	means := make([]float64, watchBlocks)
	for b := range means {
		means[b] = mean(v[b*len(v)/watchBlocks : (b+1)*len(v)/watchBlocks])
	}
	return ofForty * robustSigma(means) * math.Sqrt(float64(len(v))/watchBlocks)
}
