package budget

import (
	"math"
	"slices"
	"sort"
)

// tail is the share of requests above the quantile that is watched: p99.
const tail = 0.01

// away are the TTFT of requests away from legs, of a group.
type away struct{ recent, all []float64 }

// read compares the requests of [from, now] beside legs with those away from them.
func (b *Breaker) read(now, from int64) Reading {
	busy := b.busy(now)
	groups, beside := map[string]*away{}, map[string][]float64{}
	for i := range b.seen {
		s := &b.seen[i]
		if busy.meets(s) {
			if s.Start >= from {
				beside[s.Group] = append(beside[s.Group], s.TTFT)
			}
			continue
		}
		g := groups[s.Group]
		if g == nil {
			g = &away{}
			groups[s.Group] = g
		}
		g.all = append(g.all, s.TTFT)
		if s.Start >= now-b.cfg.WindowNanos {
			g.recent = append(g.recent, s.TTFT)
		}
	}
	return b.compare(groups, beside)
}

func (b *Breaker) compare(groups map[string]*away, beside map[string][]float64) Reading {
	var r Reading
	var with, without []float64
	for group, took := range beside {
		g := groups[group]
		if g == nil {
			continue
		}
		base := g.recent
		if len(base) < b.cfg.MinBaseline {
			base = g.all
		}
		if len(base) < b.cfg.MinBaseline {
			continue
		}
		limit := b.cfg.Factor * upperP99(base)
		for _, t := range took {
			if t > limit {
				r.Over++
			}
		}
		r.Beside += len(took)
		with, without = append(with, took...), append(without, base...)
	}
	r.Expected = tail * float64(r.Beside)
	r.Chance = atLeast(r.Over, r.Beside, tail)
	r.P99, r.Baseline = p99(with), p99(without)
	return r
}

// busy is when legs were under way, by worker and link, in rising order and without
// overlaps.
type busy map[place][]Span

func (b *Breaker) busy(now int64) busy {
	out := busy{}
	for key, spans := range b.spans {
		out[key] = slices.Clone(spans)
	}
	for _, s := range b.way {
		s.End = now
		for _, p := range placesOf(s.Worker, s.Link) {
			if p.name != "" {
				out[p] = append(out[p], s)
			}
		}
	}
	for key, spans := range out {
		slices.SortFunc(spans, func(a, b Span) int { return int(min(1, max(-1, a.Start-b.Start))) })
		merged := spans[:0]
		for _, s := range spans {
			if n := len(merged); n > 0 && s.Start <= merged[n-1].End {
				merged[n-1].End = max(merged[n-1].End, s.End)
				continue
			}
			merged = append(merged, s)
		}
		out[key] = merged
	}
	return out
}

// meets tells whether a leg was on the request's worker or link during it.
func (b busy) meets(s *Seen) bool {
	for _, p := range placesOf(s.Worker, s.Link) {
		spans := b[p]
		i := sort.Search(len(spans), func(i int) bool { return spans[i].End >= s.Start })
		if i < len(spans) && spans[i].Start <= s.End {
			return true
		}
	}
	return false
}

// p99 is the 99th percentile by the nearest rank; NaN of nothing. It sorts x.
func p99(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	return x[int(math.Ceil((1-tail)*float64(len(x))))-1]
}

// upperP99 is an upper 95 % bound of the p99, by the ranks of the sample (the
// largest value where it is too small for a bound). It sorts x.
func upperP99(x []float64) float64 {
	slices.Sort(x)
	n := float64(len(x))
	rank := int(math.Ceil(n*(1-tail) + 1.645*math.Sqrt(n*tail*(1-tail))))
	return x[min(rank, len(x))-1]
}

// atLeast is the chance of k or more of n, each with probability p.
func atLeast(k, n int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n:
		return 0
	}
	below, logTerm := 0.0, float64(n)*math.Log1p(-p)
	for i := range k {
		below += math.Exp(logTerm)
		logTerm += math.Log(float64(n-i)) - math.Log(float64(i+1)) + math.Log(p) - math.Log1p(-p)
	}
	return max(0, 1-below)
}
