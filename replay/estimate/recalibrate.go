package estimate

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// prior is the number of legs that the logged prediction is worth against what
// has been seen.
const prior = 20

// recalibrated gives m_b for every request by position: the logged prediction,
// corrected by a line fitted to the legs of earlier blocks only. What a request
// is given never depends on its own leg or on later ones, so the estimator needs
// no folds and a confidence sequence stays valid.
func (ix *index) recalibrated(a, b schema.Path) []float64 {
	out := make([]float64, len(ix.requests))
	var line, bias fit
	for start := 0; start < len(ix.requests); {
		end := start
		for end < len(ix.requests) && ix.requests[end].Block == ix.requests[start].Block {
			r := ix.requests[end]
			out[end] = r.Model[b]
			if !ix.opt.NoRecalibration {
				out[end] += line.at(r.Model[b]) - bias.at(0)
			}
			end++
		}
		for _, r := range ix.requests[start:end] {
			if l := r.rejected[b]; l != nil && r.Path == a && finite(r.Model[b]) {
				line.addBounded(r.Model[b], l.carried()-r.Model[b])
			}
			if r.Path == b && r.control != nil && finite(r.Y) {
				bias.addBounded(0, r.control.carried()-r.Y)
			}
		}
		start = end
	}
	return out
}

// fit is a running least-squares line of e on x.
type fit struct{ n, x, e, xx, xe, size float64 }

func (f *fit) add(x, e float64) {
	f.n++
	f.size += math.Abs(e)
	f.x += x
	f.e += e
	f.xx += x * x
	f.xe += x * e
}

// outlier is how many mean absolute errors an error counts as, at most: one leg
// must not bend every later prediction.
const outlier = 4

// addBounded is add with outliers pulled in.
func (f *fit) addBounded(x, e float64) {
	if limit := outlier * f.size / f.n; f.n >= 5 {
		e = math.Max(-limit, math.Min(limit, e))
	}
	f.add(x, e)
}

// at is the correction at x: a shrunk mean and a shrunk slope about it.
func (f *fit) at(x float64) float64 {
	if f.n == 0 {
		return 0
	}
	return f.n / (f.n + prior) * f.through(x)
}

// through is the least-squares line at x; flat where the x are all alike.
func (f *fit) through(x float64) float64 {
	mx, me := f.x/f.n, f.e/f.n
	vx, vxe := f.xx/f.n-mx*mx, f.xe/f.n-mx*me
	if vx <= 1e-12*(mx*mx+1e-12) {
		return me
	}
	return me + vxe/vx*(x-mx)
}
