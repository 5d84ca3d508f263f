package report

import "math"

// truthView is estimates against the truth.
type truthView struct {
	Pairs     []pairView // with an estimate
	NotJudged []unjudged
	Others    []otherRow
	Inside    string // in words, of the first method of each pair
	AnyTruth  bool
}

type pairView struct {
	Name, Truth string
	Rows        []methodRow
	Ticks       []tick
}

type methodRow struct {
	Name, Text, Bounds, N, Hit, HitKind string
	Mark                                mark
}

// unjudged is a pair that has no estimate.
type unjudged struct{ Pair, Link, Truth, Why string }

// otherRow is the predicted delay of other requests beside the true one.
type otherRow struct{ Link, Truth, Predicted, Off, Requests string }

func newTruth(all []Truth) (v truthView) {
	inside, judged, pairs := int64(0), int64(0), int64(0)
	for i := range all {
		t := &all[i]
		v.AnyTruth = v.AnyTruth || t.Truth.Known()
		if t.Others {
			v.Others = append(v.Others, newOtherRow(t))
			continue
		}
		pairs++
		if !t.estimated() {
			v.NotJudged = append(v.NotJudged, newUnjudged(t))
			continue
		}
		p := newPair(t)
		v.Pairs = append(v.Pairs, p)
		if p.Rows[0].HitKind != "unknown" {
			judged++
			if p.Rows[0].HitKind == "inside" {
				inside++
			}
		}
	}
	v.Inside = insideWords(inside, judged, pairs-judged)
	return v
}

// insideWords says how often the interval held the truth.
func insideWords(inside, judged, not int64) string {
	s := count(inside) + " of " + plural(judged, "interval") + " of the estimator that verdicts use " + verb(inside, "holds", "hold") + " the truth."
	if judged == 0 {
		s = "No estimate could be held against the truth."
	}
	if not > 0 {
		s += " " + plural(not, "pair") + " could not be judged, for want of an interval or a truth."
	}
	return s
}

func verb(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// estimated says that some method has an estimate.
func (t *Truth) estimated() bool {
	for _, m := range t.Methods {
		if m.Estimate.Known() {
			return true
		}
	}
	return false
}

func (t *Truth) pair() string {
	return orUnlabelled(t.Path) + " against " + orUnlabelled(t.Alternative)
}

func (t *Truth) words() string {
	if !t.Truth.Known() {
		return unknownWord
	}
	return signed(t.Truth.V) + ", the mean of " + plural(t.Requests, "request")
}

func newUnjudged(t *Truth) unjudged {
	u := unjudged{Pair: t.pair(), Link: t.Link, Truth: t.words(), Why: "no estimate"}
	if u.Link == "" {
		u.Link = "all"
	}
	for _, m := range t.Methods {
		if !m.Estimate.Known() && m.Reason != "" {
			u.Why = m.Reason
			break
		}
	}
	return u
}

func newOtherRow(t *Truth) otherRow {
	r := otherRow{Link: orUnlabelled(t.Link), Truth: unknownWord, Predicted: unknownWord, Off: "not judged", Requests: count(t.Requests)}
	if t.Truth.Known() {
		r.Truth = signed(t.Truth.V)
	}
	if len(t.Methods) > 0 && t.Methods[0].Estimate.Known() {
		r.Predicted = signed(t.Methods[0].Estimate.Value)
		if t.Truth.Known() {
			r.Off = seconds(math.Abs(t.Methods[0].Estimate.Value - t.Truth.V))
		}
	}
	return r
}

func newPair(t *Truth) pairView {
	all := make([]*Interval, 0, len(t.Methods)+1)
	for _, m := range t.Methods {
		all = append(all, m.Estimate)
	}
	if t.Truth.Known() {
		all = append(all, &Interval{Value: t.Truth.V})
	}
	s := fitted(all...)
	p := pairView{Name: t.pair(), Ticks: s.ticks(axisWord)}
	if t.Truth.Known() {
		p.Truth = t.words()
	}
	if t.Link != "" {
		p.Name += ", link " + t.Link
	}
	for _, m := range t.Methods {
		p.Rows = append(p.Rows, newMethodRow(s, m, t.Truth))
	}
	return p
}

func newMethodRow(s scale, m Method, truth Number) methodRow {
	r := methodRow{Name: m.Name, Text: unknownWord, Bounds: m.Reason, N: "0", Hit: "not judged", HitKind: "unknown", Mark: markOf(s, m.Estimate, m.Name)}
	if truth.Known() {
		r.Mark.Truth = pct(s.at(truth.V))
	}
	if r.Bounds == "" {
		r.Bounds = "no estimate"
	}
	if !m.Estimate.Known() {
		return r
	}
	r.Text, r.Bounds, r.N = signed(m.Estimate.Value), bounds(m.Estimate), count(m.Estimate.N)
	if truth.Known() && !m.Estimate.HasInterval() {
		r.Hit = "off by " + seconds(math.Abs(m.Estimate.Value-truth.V))
	}
	if truth.Known() && m.Estimate.HasInterval() {
		r.Hit, r.HitKind = "outside", "outside"
		if m.Estimate.Low <= truth.V && truth.V <= m.Estimate.High {
			r.Hit, r.HitKind = "inside", "inside"
		}
	}
	return r
}
