package estimate

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvwhatif/kvwhatif/schema"
)

// request is a decision with its legs.
type request struct {
	*Decision
	at       int            // position in index.requests
	rejected [NumPaths]*Leg // by path run
	control  *Leg           // nil where none ran
}

// index is a window in order of time, legs joined.
type index struct {
	opt      Options
	requests []*request
	done     map[cell]*tally // completion, at each level
	periods  map[cell][]period
	unjoined int // legs whose decision is not in the window
	unusable int // legs with a missing value or probability
	repeated int // legs that came twice
}

func newIndex(in Input, opt Options) *index {
	ix := &index{opt: opt.withDefaults(), done: map[cell]*tally{}, periods: map[cell][]period{}}
	byID := make(map[schema.RowID]*request, len(in.Decisions))
	for i := range in.Decisions {
		r := &request{Decision: &in.Decisions[i]}
		if int(r.Path) >= NumPaths || byID[r.ID] != nil {
			continue
		}
		byID[r.ID] = r
		ix.requests = append(ix.requests, r)
	}
	slices.SortStableFunc(ix.requests, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), slices.Compare(a.ID[:], b.ID[:]))
	})
	for i, r := range ix.requests {
		r.at = i
	}
	for i := range in.Legs {
		ix.join(byID, &in.Legs[i])
	}
	for _, r := range ix.requests {
		ix.count(r)
	}
	ix.countByTime()
	return ix
}

func (ix *index) join(byID map[schema.RowID]*request, l *Leg) {
	r := byID[l.Of]
	switch {
	case r == nil:
		ix.unjoined++
	case !l.usable():
		ix.unusable++
	case l.Kind == schema.LegControl && l.Path == r.Path:
		ix.keep(&r.control, l)
	case l.Kind == schema.LegRejected && l.Path != r.Path:
		ix.keep(&r.rejected[l.Path], l)
	default:
		ix.unusable++
	}
}

// keep takes the first of legs that say they are the same one.
func (ix *index) keep(at **Leg, l *Leg) {
	if *at != nil {
		ix.repeated++
		return
	}
	*at = l
}

func (l *Leg) usable() bool {
	return finite(l.Y) && finite(l.ModelDecision) && finite(l.ModelReplay) &&
		l.Inclusion > 0 && l.Inclusion <= 1 && int(l.Path) < NumPaths
}

// carried is ỹ*, the leg at the state of its decision.
func (l *Leg) carried() float64 { return l.Y + l.ModelDecision - l.ModelReplay }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
