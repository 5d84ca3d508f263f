package report

import "math"

// bars is where the mean TTFT went, a bar a group of requests.
type bars struct {
	Rows  []bar
	Ticks []tick
	Sums  string // the check, in words
	Holds bool
}

type bar struct {
	Name, Requests, TTFT string
	Parts                []segment
	Texts                []string // seconds by stage, in the order of stageNames
	Sum                  string   // the row's check
	Zero                 string
	Desc                 string
}

// segment is one stage of a bar. Y and Height are its lane, where the stages are
// drawn one under the other.
type segment struct{ Class, X, Width, Title, Y, Height string }

// stageNames are the stages in the order in which they happen, with the class
// that draws each.
var stageNames = []struct{ Name, Class string }{
	{"GPU queue", "s-gpu"}, {"exposed stall", "s-stall"}, {"restore", "s-restore"},
	{"prefill", "s-prefill"}, {"remainder", "s-rest"},
}

// lane is the height of one stage where each has its own, per cent of the plot.
const lane = 100.0 / 5

func (s *Stages) values() [5]float64 {
	return [5]float64{s.GPUQueue, s.ExposedStall, s.Restore, s.Prefill, s.Remainder}
}

// off is how far the stages are from summing to TTFT, seconds.
func (s *Stages) off() float64 {
	sum := 0.0
	for _, v := range s.values() {
		sum += v
	}
	return sum - s.TTFT
}

// sums says that the stages sum to TTFT, within what float32 columns can keep.
func (s *Stages) sums() bool {
	size := math.Abs(s.TTFT)
	for _, v := range s.values() {
		size = math.Max(size, math.Abs(v))
	}
	return math.Abs(s.off()) <= 1e-5*size+1e-9 // false for NaN
}

func newBars(rows []Stages) bars {
	b := bars{Holds: true}
	s := stageScale(rows)
	bad := int64(0)
	for i := range rows {
		b.Rows = append(b.Rows, newBar(s, &rows[i]))
		if !rows[i].sums() {
			bad++
		}
	}
	b.Ticks = s.ticks(seconds)
	b.Sums = "The stages of every row sum to its TTFT."
	if bad > 0 {
		b.Holds = false
		b.Sums = "The stages of " + plural(bad, "row") + " do not sum to TTFT: do not trust this section, and report it as a defect."
	}
	return b
}

func stageScale(rows []Stages) scale {
	var s scale
	for i := range rows {
		up, down := 0.0, 0.0
		for _, v := range rows[i].values() {
			if v > 0 {
				up += v
			} else {
				down += v
			}
		}
		if finite(up) && finite(down) {
			s.max, s.min = math.Max(s.max, up), math.Min(s.min, down)
		}
	}
	s.max *= 1.02
	return s
}

func newBar(s scale, r *Stages) bar {
	b := bar{Name: orUnlabelled(r.Path), Requests: count(r.Requests), TTFT: seconds(r.TTFT), Zero: pct(s.at(0))}
	if r.Link != "" {
		b.Name += " over " + r.Link
	}
	up, down := 0.0, 0.0
	for i, v := range r.values() {
		text := seconds(v)
		b.Texts = append(b.Texts, text)
		b.Desc += stageNames[i].Name + " " + text + ", "
		if !finite(v) || undust(v) == 0 {
			continue
		}
		from, to := up, up+v
		if v < 0 {
			from, to = down+v, down
			down += v
		} else {
			up += v
		}
		b.Parts = append(b.Parts, segment{stageNames[i].Class, pct(s.at(from)), pct(s.at(to) - s.at(from)), stageNames[i].Name + ": " + text,
			pct(float64(i) * lane), pct(lane)})
	}
	b.Desc += "TTFT " + b.TTFT
	b.Sum = "sums"
	if !r.sums() {
		b.Sum = "off by " + seconds(r.off())
	}
	return b
}
