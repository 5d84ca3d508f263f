package estimate

import (
	"math"
	"sort"

	"github.com/kvwhatif/kvwhatif/schema"
)

// cell is what completion is estimated in, from the finest level to the coarsest.
type cell struct {
	level   int
	stratum string
	size    int
	from    schema.Path
	run     schema.Path // run == from is a control leg
}

type tally struct{ intended, executed float64 }

// minTally is how many intended legs a level needs to estimate q̂.
const minTally = 20

func cells(d *Decision, run schema.Path) [3]cell {
	return [3]cell{
		{level: 0, stratum: d.Stratum, size: d.Slice.Size, from: d.Path, run: run},
		{level: 1, size: d.Slice.Size, from: d.Path, run: run},
		{level: 2, from: d.Path, run: run},
	}
}

// leg gives the leg of r that ran path b, nil where none did.
func (r *request) leg(b schema.Path) *Leg {
	if b == r.Path {
		return r.control
	}
	return r.rejected[b]
}

func (ix *index) count(r *request) {
	for b := range NumPaths {
		ran := r.leg(schema.Path(b)) != nil
		if r.Intended[b] <= 0 && !ran {
			continue
		}
		for _, c := range cells(r.Decision, schema.Path(b)) {
			t := ix.done[c]
			if t == nil {
				t = &tally{}
				ix.done[c] = t
			}
			t.intended += math.Max(0, r.Intended[b])
			if ran {
				t.executed++
			}
		}
	}
}

// completion is q̂ of legs of r that run b: that of its stratum where enough were
// intended there, else of its size, else of the pair; times how its period of
// time compares with the whole, for the legs of late decisions may not have run
// yet. ok is false where nothing is known to have been intended.
func (ix *index) completion(r *request, b schema.Path) (q float64, ok bool) {
	all := cells(r.Decision, b)
	for level, c := range all {
		t := ix.done[c]
		if t == nil || t.intended <= 0 || (t.intended < minTally && level < len(all)-1) {
			continue
		}
		return math.Min(1, t.rate()*ix.ofItsTime(all[len(all)-1], r.Block)), true
	}
	return 0, false
}

func (t *tally) rate() float64 { return math.Min(1, t.executed/t.intended) }

// period is a run of blocks, with the completion of a pair's legs in it.
type period struct {
	from, until int64 // first and last block
	tally
}

const (
	minPeriod = 40 // intended legs that make a period
	minTail   = 5  // and, after the last leg that ran, a period of legs that have not run yet
)

// countByTime makes the periods of every pair: blocks in order, until enough legs
// were intended, and those after the last leg that ran apart.
func (ix *index) countByTime() {
	lastRan := map[cell]int64{}
	ix.eachIntended(func(r *request, c cell, ran bool, _ float64) {
		if ran {
			lastRan[c] = r.Block
		}
	})
	ix.eachIntended(func(r *request, c cell, ran bool, intended float64) {
		p := ix.periods[c]
		last, any := lastRan[c]
		if n := len(p); n == 0 || (p[n-1].intended >= minPeriod && r.Block > p[n-1].until) ||
			(any && r.Block > last && p[n-1].until <= last) {
			p = append(p, period{from: r.Block})
		}
		now := &p[len(p)-1]
		now.until = r.Block
		now.intended += intended
		if ran {
			now.executed++
		}
		ix.periods[c] = p
	})
}

// eachIntended calls f in order of time for every leg that was intended or ran.
func (ix *index) eachIntended(f func(r *request, pair cell, ran bool, intended float64)) {
	for _, r := range ix.requests {
		for b := range NumPaths {
			ran, intended := r.leg(schema.Path(b)) != nil, math.Max(0, r.Intended[b])
			if ran || intended > 0 {
				f(r, cells(r.Decision, schema.Path(b))[2], ran, intended)
			}
		}
	}
}

// ofItsTime is the completion of the pair in the period of a block over that of
// the pair; 1 where the pair has one period only.
func (ix *index) ofItsTime(pair cell, block int64) float64 {
	periods, whole := ix.periods[pair], ix.done[pair]
	if len(periods) < 2 || whole.executed == 0 {
		return 1
	}
	i := max(0, sort.Search(len(periods), func(i int) bool { return periods[i].from > block })-1)
	enough := float64(minTally / 2)
	if periods[i].executed == 0 {
		enough = minTail
	}
	if periods[i].intended < enough && i > 0 { // too short to tell: as the one before
		i--
	}
	if periods[i].intended == 0 {
		return 1
	}
	return periods[i].rate() / whole.rate()
}
