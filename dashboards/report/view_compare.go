package report

import "math"

// truthView is estimates against the truth.
type truthView struct {
	Pairs    []pairView
	Inside   string // in words, of the first method of each pair
	AnyTruth bool
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

func newTruth(all []Truth) (v truthView) {
	inside, judged := int64(0), int64(0)
	for i := range all {
		t := &all[i]
		p := newPair(t)
		v.Pairs = append(v.Pairs, p)
		if len(p.Rows) > 0 && p.Rows[0].HitKind != "unknown" {
			judged++
			if p.Rows[0].HitKind == "inside" {
				inside++
			}
		}
	}
	v.AnyTruth = len(all) > 0
	v.Inside = count(inside) + " of " + count(judged) + " intervals of the estimator that verdicts use hold the truth; " +
		plural(int64(len(all))-judged, "pair") + " could not be judged, for want of an interval or a truth."
	return v
}

func newPair(t *Truth) pairView {
	all := make([]*Interval, 0, len(t.Methods)+1)
	for _, m := range t.Methods {
		all = append(all, m.Estimate)
	}
	if t.Truth.Known() {
		all = append(all, &Interval{Value: t.Truth.V})
	}
	s := symmetric(all...)
	p := pairView{Name: orUnlabelled(t.Path) + " against " + orUnlabelled(t.Alternative), Truth: unknownWord, Ticks: s.ticks(axisWord)}
	if t.Link != "" {
		p.Name += ", link " + t.Link
	}
	if t.Truth.Known() {
		p.Truth = signed(t.Truth.V) + ", the mean of " + plural(t.Requests, "request")
	}
	for _, m := range t.Methods {
		p.Rows = append(p.Rows, newMethodRow(s, m, t.Truth))
	}
	return p
}

func newMethodRow(s scale, m Method, truth Number) methodRow {
	r := methodRow{Name: m.Name, Text: unknownWord, Bounds: m.Reason, N: "none", Hit: "not judged", HitKind: "unknown", Mark: markOf(s, m.Estimate, m.Name)}
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

// armsView is policies compared.
type armsView struct {
	Rows  []armRow
	Ticks []tick
	AA    []string // what the A/A arms say, in words
}

type armRow struct {
	Name, Note, Requests, Mean, P50, P95, P99, Gain, Bounds, N string
	Mark                                                       mark
	Plot                                                       bool
}

func newArms(all []Arm) (v armsView) {
	var gains []*Interval
	for i := range all {
		gains = append(gains, all[i].Gain)
	}
	s := symmetric(gains...)
	v.Ticks = s.ticks(axisWord)
	for i := range all {
		a := &all[i]
		v.Rows = append(v.Rows, newArmRow(s, a))
		if a.AA {
			v.AA = append(v.AA, sayAA(a))
		}
	}
	return v
}

func armName(a *Arm) string {
	if a.Link == "" {
		return orUnlabelled(a.Policy)
	}
	return orUnlabelled(a.Policy) + ", link " + a.Link
}

func newArmRow(s scale, a *Arm) armRow {
	r := armRow{Name: armName(a), Requests: count(a.Requests), Mean: number(a.Mean), P50: number(a.P50), P95: number(a.P95), P99: number(a.P99), N: "no pairs"}
	switch {
	case a.AA:
		r.Note = "A/A: the default with another seed"
	case a.Default:
		r.Note, r.Gain, r.Bounds = "the default", "–", "the others are compared with it"
		return r
	}
	r.Gain, r.Bounds, r.Plot, r.Mark = unknownWord, a.Reason, true, markOf(s, a.Gain, a.Policy)
	if r.Bounds == "" {
		r.Bounds = "no paired requests"
	}
	if a.Gain.Known() {
		r.Gain, r.Bounds, r.N = signed(a.Gain.Value), bounds(a.Gain), plural(a.Gain.N, "pair")
	}
	return r
}

// sayAA says what the A/A arm shows: two runs of one policy must not differ.
func sayAA(a *Arm) string {
	switch {
	case !a.Gain.HasInterval():
		return "The A/A arm has no interval, so nothing shows that this comparison finds no difference where there is none."
	case a.Gain.Low <= 0 && a.Gain.High >= 0:
		return "The A/A arm ran the default policy again with another seed: its interval (" + span(a.Gain.Low, a.Gain.High) + ") covers no difference, as it must."
	}
	return "The A/A arm ran the default policy again with another seed, and its interval (" + span(a.Gain.Low, a.Gain.High) + ") does NOT cover no difference: this comparison finds differences where there are none. Do not trust it."
}
