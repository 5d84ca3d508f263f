package estimate

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Report is everything that a window says.
type Report struct {
	Verdict       Verdict
	Pairs         []Pair // every ordered pair that some request had candidates for, or a choice of
	Slices        []SliceEstimate
	Regret        Regret
	Contributions []Contribution

	Requests     int // decisions in the window, without repeats
	UnjoinedLegs int // their decision is not in the window
	UnusableLegs int // a value or a probability is missing
	RepeatedLegs int // came twice; the first was used
}

// State is a verdict's word.
type State string

// The verdicts. Unknown is never shown as good.
const (
	Helping State = "helping"
	Hurting State = "hurting"
	Unknown State = "unknown"
)

// Verdict is the headline: fetched requests against local recompute.
type Verdict struct {
	State        State
	Why          string // always said
	Pair         Pair
	UnknownShare float64 // of the fetched requests
}

// SliceEstimate is a pair among the requests with one value of one dimension.
type SliceEstimate struct {
	Dimension string // "policy", "model", "tier", "link" or "size"
	Value     string
	Pair      Pair

	// Family covers together with those of all the pair's known slices, so that
	// slices may be picked by what they show; Pair.Window covers by itself only, and
	// is the same where a dimension has one value. It is Bonferroni's: slices share legs,
	// control legs and blocks, and it holds whatever they share, with few blocks too,
	// where a bootstrap over blocks does not. NaN where the slice is unknown.
	Family Interval
}

// Estimate answers for a window. It never fails: what can not be said is refused
// in its place.
func Estimate(in Input, opt Options) Report {
	ix := newIndex(in, opt)
	out := Report{Requests: len(ix.requests), UnjoinedLegs: ix.unjoined, UnusableLegs: ix.unusable, RepeatedLegs: ix.repeated}
	book := newLedger(ix)
	var known []population
	for a := schema.PathFetch; int(a) < NumPaths; a++ {
		for b := schema.PathFetch; int(b) < NumPaths; b++ {
			if a == b || !ix.present(a, b) {
				continue
			}
			model := ix.recalibrated(a, b)
			whole, s := ix.pair(ix.requests, a, b, model)
			out.Pairs = append(out.Pairs, whole)
			out.Slices = append(out.Slices, ix.slices(a, b, model)...)
			book.add(whole, s)
			if whole.Known {
				known = append(known, s)
			}
		}
	}
	out.Regret = ix.regret(known)
	out.Contributions = book.rows()
	out.Verdict = verdict(headline(out.Pairs))
	return out
}

// present tells whether any request chose a and could have run b.
func (ix *index) present(a, b schema.Path) bool {
	for _, r := range ix.requests {
		if r.Path == a && finite(r.Model[b]) {
			return true
		}
	}
	return false
}

func headline(pairs []Pair) Pair {
	for _, p := range pairs {
		if p.From == schema.PathFetch && p.To == schema.PathRecompute {
			return p
		}
	}
	p := refused(Pair{From: schema.PathFetch, To: schema.PathRecompute})
	p.Why = "no request was fetched that could have been recomputed"
	return p
}

func verdict(p Pair) Verdict {
	v := Verdict{State: Unknown, Pair: p, UnknownShare: p.UnknownShare()}
	if !p.Known {
		v.Why = p.Why
		return v
	}
	said := fmt.Sprintf("%.4g ms (%.4g to %.4g) over %d requests, %d legs", 1e3*p.Theta, 1e3*p.Window.Lo, 1e3*p.Window.Hi, p.N, p.Legs)
	switch {
	case p.Window.Lo > 0:
		v.State, v.Why = Helping, "fetching saved "+said
	case p.Window.Hi < 0:
		v.State, v.Why = Hurting, "fetching cost: benefit "+said
	default:
		v.Why = "the interval covers 0: benefit " + said
	}
	return v
}

// dimensions name each slice of a request.
func (s Slice) dimensions() [5][2]string {
	return [5][2]string{
		{"policy", s.Policy}, {"model", s.Model}, {"tier", s.Tier}, {"link", s.Link},
		{"size", schema.SizeBucketName(s.Size)},
	}
}

// slices estimates the pair within each value of each dimension.
func (ix *index) slices(a, b schema.Path, model []float64) []SliceEstimate {
	type key struct {
		dimension int
		value     string
	}
	var order []key
	sets := map[key][]*request{}
	for _, r := range ix.requests {
		if r.Path != a {
			continue
		}
		for i, d := range r.Slice.dimensions() {
			k := key{i, d[1]}
			if sets[k] == nil {
				order = append(order, k)
			}
			sets[k] = append(sets[k], r)
		}
	}
	sortBy(order, func(x, y key) bool {
		return x.dimension < y.dimension || (x.dimension == y.dimension && x.value < y.value)
	})
	values := map[int]int{}
	for _, k := range order {
		values[k.dimension]++
	}
	out := make([]SliceEstimate, 0, len(order))
	picks := family{level: ix.opt.Level}
	for _, k := range order {
		p, s := ix.pair(sets[k], a, b, model)
		out = append(out, SliceEstimate{Dimension: Slice{}.dimensions()[k.dimension][0], Value: k.value, Pair: p, Family: p.Window})
		if p.Known && values[k.dimension] > 1 {
			picks.add(len(out)-1, s.parts)
		}
	}
	picks.fill(out)
	return out
}

// family is the known slices of a pair among which one may pick. A dimension of
// one value is the pair itself and is no pick.
type family struct {
	level float64
	at    []int
	parts [][]part
}

func (f *family) add(at int, parts []part) {
	f.at, f.parts = append(f.at, at), append(f.parts, parts)
}

func (f *family) fill(slices []SliceEstimate) {
	level := 1 - (1-f.level)/float64(len(f.at))
	for i, at := range f.at {
		slices[at].Family = interval(slices[at].Pair.Theta, level, f.parts[i]...)
	}
}

// Shrunk is the predicted benefit of one request, in seconds. One replay is one
// draw, so "worst decisions" are ordered by the prediction m_b − y shrunk towards
// theta, its pair's estimate, and are to be labelled predictions. noise and
// spread are the standard deviations of the prediction's error and of true
// benefits. NaN where they are not known.
func Shrunk(predicted, theta, noise, spread float64) float64 {
	if total := noise*noise + spread*spread; total > 0 && finite(theta) {
		share := spread * spread / total
		return share*predicted + (1-share)*theta
	}
	return math.NaN()
}
