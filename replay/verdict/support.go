package verdict

import (
	"math"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// contributionKey is the key of a row of estimates.
type contributionKey struct {
	block    int64
	from, to schema.Path
	slice    estimate.Slice
}

func keyOf(c *estimate.Contribution) contributionKey {
	return contributionKey{c.Block, c.From, c.To, c.Slice}
}

// support is what a row of estimates rests on beyond its sums.
type support struct {
	planned                 float64
	weight, weight2, widest float64 // of 1/π
	variance                float64 // Σ R(1−π)/π² (ỹ* − δ − m)², m as it was logged
	revision                int64
	plan                    string
}

// support sums by the keys that the estimator's contributions have: a decision
// counts against its own alternative.
func (s *Sample) support(pairs []estimate.Pair) map[contributionKey]*support {
	out := map[contributionKey]*support{}
	position := make(map[schema.RowID]int, len(s.Input.Decisions))
	at := func(d *estimate.Decision) *support {
		k := contributionKey{d.Block, d.Path, d.Alternative, d.Slice}
		if out[k] == nil {
			out[k] = &support{}
		}
		return out[k]
	}
	for i := range s.Input.Decisions {
		d := &s.Input.Decisions[i]
		position[d.ID] = i
		u := at(d)
		u.revision = max(u.revision, s.facts[i].revision)
		if e := s.facts[i].epoch; e >= 0 {
			u.plan = s.epochs[e].id()
		}
		if d.Alternative != schema.PathNone {
			u.planned += d.Intended[d.Alternative]
		}
	}
	delta := map[[2]schema.Path]float64{}
	for _, p := range pairs {
		delta[[2]schema.Path{p.From, p.To}] = p.Delta
	}
	for i := range s.Input.Legs {
		l := &s.Input.Legs[i]
		d := &s.Input.Decisions[position[l.Of]]
		if l.Kind == schema.LegRejected && l.Path == d.Alternative {
			at(d).add(l, l.Y+l.ModelDecision-l.ModelReplay-delta[[2]schema.Path{d.Path, l.Path}]-d.Model[l.Path])
		}
	}
	return out
}

func (u *support) add(l *estimate.Leg, residual float64) {
	if !(l.Inclusion > 0) || math.IsNaN(l.Y) {
		return
	}
	w := 1 / l.Inclusion
	u.weight += w
	u.weight2 += w * w
	u.widest = math.Max(u.widest, w)
	if !math.IsNaN(residual) {
		u.variance += (w*w - w) * residual * residual
	}
}
