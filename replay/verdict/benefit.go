package verdict

import (
	"math"
	"sort"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Benefit is what the choices of one slice of the decisions brought. By path it
// is of the path named, each decision against its own alternative; by anything
// else of fetched decisions against recomputing.
type Benefit struct {
	By    string // "path", "policy", "model", "tier", "link" or "size"
	Value string // schema.SizeBucketName for a size; "" not known

	Decisions int
	Hurt      int  // predicted to have been slower than the alternative, others' delay included
	NoAnswer  int  // no predicted benefit
	Predicted Mean // benefit by the logged predictions, others' delay included; N is decisions

	// Measured is the benefit by replay, on the decisions themselves. Measured.Why
	// says why it is unknown.
	Measured   Mean
	Unmeasured float64 // share of the decisions that Measured says nothing of, 0 to 1
}

// group is the decisions of one slice, by position.
type group struct {
	by, value string
	members   []int
}

// benefits gives the rows of every dimension, each in the order of its values.
func (s *Sample) benefits(r *Result) (out []Benefit) {
	for _, g := range s.groups() {
		b := s.predicted(g)
		if g.by == "path" {
			b.Measured = measuredPath(r, g.value)
			b.Unmeasured = share(b.Measured.N, b.Decisions)
		} else {
			b.Measured, b.Unmeasured = s.measuredSlice(r, g)
		}
		out = append(out, b)
	}
	return out
}

func share(known, all int) float64 {
	if all == 0 {
		return 1
	}
	return 1 - float64(known)/float64(all)
}

func (s *Sample) groups() []group {
	type key struct {
		rank      int
		by, value string
	}
	sets := map[key][]int{}
	for i := range s.Input.Decisions {
		d := &s.Input.Decisions[i]
		add := func(rank int, by, value string) {
			k := key{rank, by, value}
			sets[k] = append(sets[k], i)
		}
		add(int(d.Path), "path", d.Path.String())
		if d.Path != schema.PathFetch {
			continue
		}
		add(10, "policy", d.Slice.Policy)
		add(20, "model", d.Slice.Model)
		add(30, "tier", d.Slice.Tier)
		add(40, "link", d.Slice.Link)
		add(51+d.Slice.Size, "size", schema.SizeBucketName(d.Slice.Size))
	}
	keys := make([]key, 0, len(sets))
	for k := range sets {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		return keys[i].rank < keys[j].rank || (keys[i].rank == keys[j].rank && keys[i].value < keys[j].value)
	})
	out := make([]group, len(keys))
	for i, k := range keys {
		out[i] = group{k.by, k.value, sets[k]}
	}
	return out
}

func (s *Sample) predicted(g group) Benefit {
	b := Benefit{By: g.by, Value: g.value, Decisions: len(g.members)}
	values := make([]float64, 0, len(g.members))
	for _, i := range g.members {
		v := s.facts[i].benefit
		values = append(values, v)
		switch {
		case math.IsNaN(v):
			b.NoAnswer++
		case v < 0:
			b.Hurt++
		}
	}
	b.Predicted = s.mean(values, g.members)
	return b
}

// others is the mean delay that the pair's choices spared other requests.
func (s *Sample) others(p estimate.Pair) Mean {
	var values []float64
	var members []int
	for i := range s.Input.Decisions {
		if d := &s.Input.Decisions[i]; d.Path == p.From && d.Alternative == p.To {
			values, members = append(values, s.facts[i].others), append(members, i)
		}
	}
	return s.mean(values, members)
}

// mean averages what is known of the members; its interval is over blocks of
// time, at 95 %.
func (s *Sample) mean(values []float64, members []int) Mean {
	zeros, blocks := make([]float64, len(values)), make([]int, len(values))
	for k, i := range members {
		blocks[k] = int(s.Input.Decisions[i].Block)
	}
	d := estimate.Paired(zeros, values, blocks)
	m := Mean{Known: d.N > 0, Value: d.Mean, SE: math.NaN(), Lo: d.Lo, Hi: d.Hi, Level: 0.95, N: d.N, Unknown: len(values) - d.N, Blocks: d.Blocks, Why: d.Why}
	if d.N == 0 {
		m.Why = "no prediction of an alternative was logged"
	}
	return m
}

func measuredPath(r *Result, path string) Mean {
	var rows []estimate.Contribution
	for _, c := range r.Report.Contributions {
		if c.From.String() == path {
			rows = append(rows, c)
		}
	}
	m := Over(rows, r.Level)
	if m.N > 0 {
		return m
	}
	for _, f := range r.Findings { // nothing of it is known: say what its first pair says
		if f.Pair.From.String() == path && !f.Pair.Known {
			m.Why = f.Pair.Why
			break
		}
	}
	return m
}

func (s *Sample) measuredSlice(r *Result, g group) (Mean, float64) {
	for _, e := range r.Report.Slices {
		p := e.Pair
		if e.Dimension != g.by || e.Value != g.value || p.From != schema.PathFetch || p.To != schema.PathRecompute {
			continue
		}
		if why := s.missing(p); !p.Known && why != "" {
			p.Why = why
		}
		p.Window = e.Family // of all slices at once
		return ofPair(p, r.Level), p.UnknownShare()
	}
	return ofPair(r.Headline.Pair, r.Level).refused(r.Headline.Why), 1
}
