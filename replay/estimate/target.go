package estimate

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// TailIndex is Pareto's k of the largest of x, as Pair.ParetoK has it: above 0.7 a
// mean weighted by x is not reliable. NaN with fewer than 10 points of tail.
func TailIndex(x []float64) float64 { return tailIndex(x) }

// Target is a policy that was not deployed, on a window of requests of which some
// were replayed.
type Target struct {
	ix     *index
	to     map[schema.RowID]schema.Path
	models map[[2]schema.Path][]float64
}

// NewTarget takes a window and, by request, the path that the policy would run; a
// request that is not in to keeps its path. The policy must not have been chosen
// by the legs of the same window.
func NewTarget(in Input, opt Options, to map[schema.RowID]schema.Path) *Target {
	return &Target{ix: newIndex(in, opt), to: to, models: map[[2]schema.Path][]float64{}}
}

// Value is V(d) = mean[1(d=A)·y + 1(d≠A)·(m_d + R/(π q̂)·(ỹ* − δ − m_d))], seconds of
// TTFT a request. Only the request itself changes: queues and caches are as they
// were.
type Value struct {
	Known bool
	Why   string // why not, where Known is false

	N       int // requests that it is of
	Unknown int // requests left out: no TTFT, or moved by a pair of paths that is not known
	Stuck   int // of the Unknown, those that d runs another way
	Moved   int // of the N, those that d runs another way
	Legs    int // replays behind it
	Blocks  int

	Logged   float64  // mean TTFT of the N, as observed
	Value    float64  // V(d)
	Window   Interval // of V(d), over these very requests
	NextHour Interval // of V(d), over blocks of time; NaN with too few
	Change   float64  // V(d) − Logged: negative where d is faster
	ChangeIn Interval // of Change, over these very requests
	ChangeBy Interval // of Change, over blocks of time; NaN with too few

	ESS       float64 // of the legs' weights; NaN where none is needed
	MaxWeight float64
	Pairs     []Pair // of the moved requests, by ordered pair of paths
}

// UnknownShare is the share of the requests of which it says nothing.
func (v Value) UnknownShare() float64 {
	if !v.Known {
		return 1
	}
	return float64(v.Unknown) / float64(v.N+v.Unknown)
}

// Value values the policy on the requests that keep names; nil keeps all.
func (t *Target) Value(keep func(*Decision) bool) Value {
	nan := math.NaN()
	blank := Interval{nan, nan, nan}
	v := Value{Logged: nan, Value: nan, Window: blank, NextHour: blank, Change: nan, ChangeIn: blank, ChangeBy: blank, ESS: nan, MaxWeight: nan}
	b := &book{y: map[int]float64{}, change: map[int]float64{}}
	moved := t.sort(keep, b, &v)
	var known []population
	for _, k := range orderedPairs(moved) {
		p, s := t.ix.pair(moved[k], k[0], k[1], t.model(k))
		v.Pairs = append(v.Pairs, p)
		if !p.Known {
			v.Unknown, v.Stuck = v.Unknown+len(moved[k]), v.Stuck+len(moved[k])
			continue
		}
		v.Unknown, v.Stuck = v.Unknown+p.Unknown+p.Infeasible, v.Stuck+p.Unknown+p.Infeasible
		v.Moved, v.Legs = v.Moved+p.N, v.Legs+p.Legs
		known = append(known, s)
		for i := range s.rows {
			b.take(&s.rows[i], s.phi(&s.rows[i]))
		}
	}
	v.N = len(b.y)
	if v.Why = t.refuse(&v); v.Why == "" {
		v.Known = true
		t.fill(&v, b, known)
	}
	return v
}

// book is y and the change of each request that is known, by its position.
type book struct{ y, change map[int]float64 }

func (b *book) take(r *row, phi float64) {
	b.y[r.request.at], b.change[r.request.at] = r.request.Y, phi
}

// sort books requests that stay, and gives those that move by pair.
func (t *Target) sort(keep func(*Decision) bool, b *book, v *Value) map[[2]schema.Path][]*request {
	moved := map[[2]schema.Path][]*request{}
	for _, r := range t.ix.requests {
		if keep != nil && !keep(r.Decision) {
			continue
		}
		to, ok := t.to[r.ID]
		switch {
		case ok && to != r.Path && int(to) < NumPaths:
			k := [2]schema.Path{r.Path, to}
			moved[k] = append(moved[k], r)
		case finite(r.Y):
			b.y[r.at] = r.Y
		default:
			v.Unknown++
		}
	}
	return moved
}

func orderedPairs(m map[[2]schema.Path][]*request) [][2]schema.Path {
	out := make([][2]schema.Path, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sortBy(out, func(a, b [2]schema.Path) bool { return a[0] < b[0] || (a[0] == b[0] && a[1] < b[1]) })
	return out
}

func (t *Target) model(k [2]schema.Path) []float64 {
	if t.models[k] == nil {
		t.models[k] = t.ix.recalibrated(k[0], k[1])
	}
	return t.models[k]
}

func (t *Target) refuse(v *Value) string {
	all := v.N + v.Unknown
	if v.N == 0 && all == 0 {
		return "no request with a decision"
	}
	most := t.ix.opt.MaxUnknown
	why := fmt.Sprintf("nothing can be said of %d of %d requests", v.Unknown, all)
	switch {
	case float64(v.Stuck) > most*float64(v.Moved+v.Stuck): // what stays says nothing of the policy
		why = fmt.Sprintf("nothing can be said of %d of the %d requests that it would run another way", v.Stuck, v.Moved+v.Stuck)
	case v.N > 0 && float64(v.Unknown) <= most*float64(all):
		return ""
	}
	worst := -1
	for i, p := range v.Pairs {
		if !p.Known && (worst < 0 || p.N > v.Pairs[worst].N) {
			worst = i
		}
	}
	if worst >= 0 {
		p := v.Pairs[worst]
		why += fmt.Sprintf("; from %s to %s: %s", p.From, p.To, p.Why)
	}
	return why
}

func (t *Target) fill(v *Value, b *book, known []population) {
	n := float64(v.N)
	v.Change, v.Logged = 0, 0
	for _, r := range t.ix.requests {
		if y, ok := b.y[r.at]; ok {
			v.Logged += y / n
			v.Change += b.change[r.at] / n
		}
	}
	v.Value = v.Logged + v.Change
	parts, shared := shares(known, n)
	v.Window = interval(v.Value, t.ix.opt.Level, append(parts, shared)...)
	v.ChangeIn = interval(v.Change, t.ix.opt.Level, append(parts, shared)...)
	value, change := map[int64]float64{}, map[int64]float64{}
	for _, r := range t.ix.requests {
		if y, ok := b.y[r.at]; ok {
			value[r.Block] += y + b.change[r.at] - v.Value
			change[r.Block] += b.change[r.at] - v.Change
		}
	}
	if v.Blocks = len(value); v.Blocks >= t.ix.opt.MinBlocks {
		k := float64(v.Blocks)
		scale := k / (k - 1) / (n * n)
		v.NextHour = interval(v.Value, t.ix.opt.Level, part{scale * sumSquares(value), k - 1}, shared)
		v.ChangeBy = interval(v.Change, t.ix.opt.Level, part{scale * sumSquares(change), k - 1}, shared)
	}
	v.ESS, v.MaxWeight = effective(known)
}

// shares are the parts of the window's variance of all pairs, and that of their
// corrections, taken to err together.
func shares(known []population, n float64) (parts []part, shared part) {
	sd, df := 0.0, math.Inf(1)
	for i := range known {
		s := &known[i]
		f := float64(len(s.rows)) / n
		for j, p := range s.parts {
			if j == 1 { // δ
				sd += f * math.Sqrt(p.variance)
				df = math.Min(df, p.df)
				continue
			}
			parts = append(parts, part{p.variance * f * f, p.df})
		}
	}
	if math.IsInf(df, 1) {
		df = 1
	}
	return parts, part{sd * sd, df}
}

func effective(known []population) (ess, largest float64) {
	sum, squares := 0.0, 0.0
	for i := range known {
		for j := range known[i].rows {
			w := known[i].rows[j].weight
			sum, squares, largest = sum+w, squares+w*w, math.Max(largest, w)
		}
	}
	if sum == 0 {
		return math.NaN(), math.NaN()
	}
	return sum * sum / squares, largest / sum
}
