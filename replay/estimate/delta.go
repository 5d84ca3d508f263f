package estimate

import (
	"fmt"
	"math"
	"sort"

	"github.com/kvwhatif/kvwhatif/schema"
	"gonum.org/v1/gonum/stat/distuv"
)

// delta is δ_b, the bias of running path b as a replay, as it bears on a set of
// requests.
type delta struct {
	value    float64            // seconds
	variance float64            // of independent legs, at least that of the rejected legs' spread
	observed float64            // of independent legs, by their own spread only
	shares   float64            // Σ share² of the legs
	batches  map[string]float64 // the legs' shares in the error, summed by batch
	df       float64
	n        int     // control legs used
	p        float64 // of "the same in each cell"; NaN with one
	spread   float64 // between cells beyond noise, seconds
	why      string  // why it can not be had
}

// place is the cell in which δ is compared: requests of like size and load. The
// finer is used where control legs support it.
type place struct{ size, load int }

func placeOf(d *Decision, level int) place {
	if level == 0 {
		return place{d.Slice.Size, d.Load}
	}
	return place{d.Slice.Size, -1}
}

// minPlace is how many control legs support a cell.
const minPlace = 3

// control is one control leg: replay carried to the decision's state, minus what
// was observed then.
type control struct {
	diff   float64
	weight float64 // 1/(π q̂)
	batch  string
}

type bin struct {
	legs   []control
	mean   float64
	wanted float64 // requests
	weight float64 // Σ of the legs' weights
}

// deltaFor estimates δ_b for the requests given: by size and load where control
// legs support it, else by size, with sizes of few control legs joined to their
// neighbours.
func (ix *index) deltaFor(set []*request, b schema.Path) delta {
	bins, n := ix.bins(b, 0)
	if n < ix.opt.MinControls {
		return delta{n: n, why: fmt.Sprintf("%s of requests that chose %s, %d needed: let some requests choose %s, or raise its control rate", counted(n, "control leg"), b, ix.opt.MinControls, b)}
	}
	if share(set, bins, 0, minPlace) >= ix.opt.MinSupport {
		return combine(bins, minPlace)
	}
	bins, _ = ix.bins(b, 1)
	if support := share(set, bins, 1, 1); support < ix.opt.MinSupport {
		return delta{n: n, why: fmt.Sprintf("control legs of %s cover %.0f %% of the sizes wanted, %.0f %% needed", b, 100*support, 100*ix.opt.MinSupport)}
	}
	join(bins)
	return combine(bins, 1)
}

// share books the requests wanted in their bins and gives the share of them in
// bins of at least enough legs.
func share(set []*request, bins map[place]*bin, level, enough int) float64 {
	supported := 0.0
	for _, r := range set {
		if b := bins[placeOf(r.Decision, level)]; b != nil && len(b.legs) >= enough {
			b.wanted++
			supported++
		}
	}
	return supported / float64(len(set))
}

// join puts bins of few legs into the next larger size, or the last into the one
// before it.
func join(bins map[place]*bin) {
	keys := ordered(bins)
	for i, at := range keys {
		if len(bins[at].legs) >= minPlace || len(bins) == 1 {
			continue
		}
		to := at
		if i+1 < len(keys) {
			to = keys[i+1]
		} else {
			for _, k := range keys[:i] {
				if bins[k] != nil {
					to = k
				}
			}
		}
		bins[to].legs = append(bins[to].legs, bins[at].legs...)
		bins[to].wanted += bins[at].wanted
		delete(bins, at)
	}
}

// alone says whether the control legs of b that ran without a rejected leg of the
// same decision are to be used only. Two legs of one decision start together and
// want the same worker, so the control waits for the other as no leg whose result
// is corrected does. Both draws are independent: those alone are a sample too. They
// are not used where they are few, as where every decision has a rejected leg.
func (ix *index) alone(b schema.Path) bool {
	alone, all := 0, 0
	for _, r := range ix.requests {
		if r.Path == b && r.control != nil {
			all++
			if r.rejected == [NumPaths]*Leg{} {
				alone++
			}
		}
	}
	return 2*alone >= all && alone >= ix.opt.MinControls
}

// bins groups the control legs of requests that chose b.
func (ix *index) bins(b schema.Path, level int) (map[place]*bin, int) {
	bins, n, alone := map[place]*bin{}, 0, ix.alone(b)
	for _, r := range ix.requests {
		if r.Path != b || r.control == nil || !finite(r.Y) || (alone && r.rejected != [NumPaths]*Leg{}) {
			continue
		}
		q, ok := ix.completion(r, b)
		if !ok || q < ix.opt.MinCompletion {
			continue
		}
		at := placeOf(r.Decision, level)
		if bins[at] == nil {
			bins[at] = &bin{}
		}
		w := 1 / (r.control.Inclusion * q)
		bins[at].legs = append(bins[at].legs, control{r.control.carried() - r.Y, w, r.control.Batch})
		n++
	}
	return bins, n
}

// combine is Σ share·mean over the bins that are wanted and have enough legs.
func combine(bins map[place]*bin, enough int) delta {
	out := delta{p: math.NaN(), batches: map[string]float64{}}
	var used []*bin
	total := 0.0
	for _, at := range ordered(bins) {
		if b := bins[at]; b.wanted > 0 && len(b.legs) >= enough {
			b.average()
			used = append(used, b)
			total += b.wanted
		}
	}
	for _, b := range used {
		out.value += b.wanted / total * b.mean
		n := float64(len(b.legs))
		out.n += len(b.legs)
		for _, l := range b.legs {
			s := b.wanted / total * l.weight / b.weight * (l.diff - b.mean) * math.Sqrt(n/math.Max(1, n-1))
			out.observed += s * s
			out.batches[l.batch] += s
			share := b.wanted / total * l.weight / b.weight
			out.shares += share * share
		}
	}
	out.variance = out.observed
	out.df = math.Max(1, float64(out.n-len(used)))
	out.p, out.spread = heterogeneity(used)
	return out
}

// widen sees to it that the legs count as no less uncertain than their share of
// spread, a variance of one leg. Waits are skewed: a few dozen control legs often
// miss the tail, and then both their mean and their own variance are too small.
func (d *delta) widen(spread float64) {
	d.variance = math.Max(d.variance, d.shares*spread)
}

func (b *bin) average() {
	sum := 0.0
	for _, l := range b.legs {
		sum += l.weight * l.diff
		b.weight += l.weight
	}
	b.mean = sum / b.weight
}

// meanVariance is the variance of the bin's weighted mean and what it is worth in
// independent observations: clustered by batch where there are batches enough to
// tell, else of independent legs.
func (b *bin) meanVariance() (variance, n float64) {
	batches := map[string]float64{}
	for _, l := range b.legs {
		s := l.weight / b.weight * (l.diff - b.mean)
		variance += s * s
		batches[l.batch] += s
	}
	n = float64(len(b.legs))
	variance *= n / (n - 1)
	if k := float64(len(batches)); k >= minPlace {
		if clustered := sumSquares(batches) * k / (k - 1); clustered > variance {
			return clustered, k
		}
	}
	return variance, n
}

// heterogeneity is Welch's test (1951) that the bins have one mean, which unlike
// Cochran's Q holds for few legs a bin, and DerSimonian and Laird's (1986)
// standard deviation between bins.
func heterogeneity(bins []*bin) (p, spread float64) {
	var w, mean, n []float64
	total, grand := 0.0, 0.0
	for _, b := range bins {
		v, worth := b.meanVariance()
		if v <= 0 {
			v = 1e-18 // bins without noise differ if they differ at all
		}
		w, mean, n = append(w, 1/v), append(mean, b.mean), append(n, worth)
		total += 1 / v
		grand += b.mean / v
	}
	k := float64(len(w))
	if k < 2 {
		return math.NaN(), 0
	}
	grand /= total
	q, lambda, squares := 0.0, 0.0, 0.0
	for i := range w {
		q += w[i] * (mean[i] - grand) * (mean[i] - grand)
		lambda += (1 - w[i]/total) * (1 - w[i]/total) / (n[i] - 1)
		squares += w[i] * w[i]
	}
	f := q / (k - 1) / (1 + 2*(k-2)/(k*k-1)*lambda)
	p = 1 - distuv.F{D1: k - 1, D2: (k*k - 1) / (3 * lambda)}.CDF(f)
	return p, math.Sqrt(math.Max(0, (q-(k-1))/(total-squares/total)))
}

func ordered(bins map[place]*bin) []place {
	keys := make([]place, 0, len(bins))
	for at := range bins {
		keys = append(keys, at)
	}
	sort.Slice(keys, func(i, j int) bool {
		return keys[i].size < keys[j].size || (keys[i].size == keys[j].size && keys[i].load < keys[j].load)
	})
	return keys
}

// sumSquares adds in the order of the keys, so that a result has the same bits
// each time.
func sumSquares[K ~string | ~int64](by map[K]float64) (sum float64) {
	keys := make([]K, 0, len(by))
	for k := range by {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	for _, k := range keys {
		sum += by[k] * by[k]
	}
	return sum
}
