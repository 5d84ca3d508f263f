package estimate

import (
	"math"
	"sort"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Contribution is what one block of time adds to one slice's benefit, so that
// SQL can give an estimate with an interval over any range and any set of
// slices: the estimate is ΣSum/ΣN; its variance, over K blocks with S_k = ΣSum
// and n_k = ΣN of block k, is Σ(S_k − estimate·n_k)²/(ΣN)²·K/(K−1) + DeltaSE².
// Unknown requests are in none of the sums: show ΣUnknown/(ΣN + ΣUnknown) with
// it, and "unknown" where ΣLegs is small. A request is counted once, against its
// own alternative (Decision.Alternative).
type Contribution struct {
	Block int64
	Slice Slice
	From  schema.Path
	To    schema.Path // PathNone: the requests had no alternative, all are unknown

	N       int     // requests that the sums are of
	Unknown int     // requests that nothing can be said of
	Legs    int     // replays among N
	Sum     float64 // Σφ, seconds
	Sum2    float64 // Σφ², seconds squared
	DeltaSE float64 // of the correction δ, which every block shares, seconds
}

type contributionKey struct {
	block    int64
	slice    Slice
	from, to schema.Path
}

// ledger gathers contributions.
type ledger struct {
	byKey map[contributionKey]*Contribution
}

// newLedger starts with every request unknown; add then moves those known.
func newLedger(ix *index) *ledger {
	l := &ledger{byKey: map[contributionKey]*Contribution{}}
	for _, r := range ix.requests {
		l.at(r.Decision).Unknown++
	}
	return l
}

func (l *ledger) at(d *Decision) *Contribution {
	k := contributionKey{d.Block, d.Slice, d.Path, d.Alternative}
	c := l.byKey[k]
	if c == nil {
		c = &Contribution{Block: k.block, Slice: k.slice, From: k.from, To: k.to}
		l.byKey[k] = c
	}
	return c
}

// add books the requests of a known pair whose alternative it is.
func (l *ledger) add(p Pair, s population) {
	if !p.Known {
		return
	}
	for i := range s.rows {
		r := &s.rows[i]
		if r.request.Alternative != p.To {
			continue
		}
		c, phi := l.at(r.request.Decision), s.phi(r)
		c.Unknown--
		c.N++
		c.Sum += phi
		c.Sum2 += phi * phi
		c.DeltaSE = math.Max(c.DeltaSE, p.DeltaSE)
		if r.weight > 0 {
			c.Legs++
		}
	}
}

// rows gives the contributions in a fixed order.
func (l *ledger) rows() []Contribution {
	out := make([]Contribution, 0, len(l.byKey))
	for _, c := range l.byKey {
		out = append(out, *c)
	}
	sortBy(out, before)
	return out
}

func before(a, b Contribution) bool {
	switch {
	case a.Block != b.Block:
		return a.Block < b.Block
	case a.From != b.From:
		return a.From < b.From
	case a.To != b.To:
		return a.To < b.To
	case a.Slice.Policy != b.Slice.Policy:
		return a.Slice.Policy < b.Slice.Policy
	case a.Slice.Model != b.Slice.Model:
		return a.Slice.Model < b.Slice.Model
	case a.Slice.Tier != b.Slice.Tier:
		return a.Slice.Tier < b.Slice.Tier
	case a.Slice.Link != b.Slice.Link:
		return a.Slice.Link < b.Slice.Link
	}
	return a.Slice.Size < b.Slice.Size
}

func sortBy[T any](x []T, less func(a, b T) bool) {
	sort.Slice(x, func(i, j int) bool { return less(x[i], x[j]) })
}
