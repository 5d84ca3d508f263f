package report

import "strconv"

// page is what the template draws: Data with every word and place worked out.
type page struct {
	Data
	Heading string
	Window  string
	Glance  []glance
	Cards   []card
	More    []card // unknown, and not the headline
	Groups  []group
	Bars    bars
	Truth   truthView
	Terms   []termView
	Contest []contestView
	Arms    armsView
	Worst   worstView
	Trust   trustView
	Facts   []fact
}

// fact is a name and what it is.
type fact struct{ Name, Text string }

// glance is one figure at the top.
type glance struct{ Kind, Figure, Text string }

// card is one verdict.
type card struct {
	Kind, Word, Scope, Say, Do string
	Effects                    []effect
	Ticks                      []tick
}

// effect is one of own, others and net of a verdict.
type effect struct {
	Name, How, Text, Bounds string
	Mark                    mark
}

func newPage(d Data) page {
	p := page{Data: d, Heading: d.Title, Window: window(d.Measured)}
	if p.Heading == "" {
		p.Heading = "KV reuse: did it help?"
	}
	p.Glance = glances(d)
	first, more := split(d.Verdicts)
	for i := range first {
		p.Cards = append(p.Cards, newCard(&first[i]))
	}
	for i := range more {
		p.More = append(p.More, newCard(&more[i]))
	}
	p.Groups = newGroups(d.Benefits)
	p.Bars = newBars(d.Stages)
	p.Truth = newTruth(d.Truths)
	p.Terms = newTerms(d.Calibration.Terms)
	p.Contest = newContests(d.Calibration.Challenges)
	p.Arms = newArms(d.Arms)
	p.Worst = newWorst(d.Worst)
	p.Trust = newTrust(d.Coverage)
	p.Facts = measuredFacts(d)
	return p
}

// window says what time the page is about.
func window(m Measured) string {
	if m.From.IsZero() || m.Until.IsZero() {
		return "Nobody said which window of time this is about."
	}
	return moment(m.From) + " to " + moment(m.Until) + "."
}

// glances counts verdicts by what may be shown of them.
func glances(d Data) []glance {
	n := map[State]int{}
	for i := range d.Verdicts {
		n[d.Verdicts[i].Shown()]++
	}
	out := make([]glance, 0, 5)
	for _, s := range []State{Hurting, Unknown, Even, Helping} {
		if s == Even && n[s] == 0 {
			continue
		}
		out = append(out, glance{string(s), strconv.Itoa(n[s]), string(s)})
	}
	return append(out, glance{"plain", count(d.Coverage.Requests), noun(d.Coverage.Requests, "request") + " in the window"})
}

func newCard(v *Verdict) card {
	s := symmetric(v.Own, v.Others, v.Net)
	how := "measured by replay"
	scope := "all links"
	if v.Link != "" {
		scope = "link " + v.Link
	}
	scope += v.rest()
	c := card{
		Kind: string(v.Shown()), Word: v.Word(),
		Scope: scope + ": " + orUnlabelled(v.Path) + " against " + orUnlabelled(v.Alternative),
		Say:   v.say(), Do: v.Do(), Ticks: s.ticks(axisWord),
	}
	if v.Own.Known() || v.Others.Known() || v.Net.Known() {
		c.Effects = []effect{
			newEffect(s, v.Own, "On these requests", how),
			newEffect(s, v.Others, "On other requests", "by the model"),
			newEffect(s, v.Net, "Net", "sum of both"),
		}
	}
	for i := range c.Effects { // what is unknown is not drawn as if it were decided
		if v.Shown() == Unknown {
			c.Effects[i].Mark.Kind = "unknown"
		}
	}
	return c
}

func newEffect(s scale, i *Interval, name, how string) effect {
	e := effect{Name: name, How: how, Text: unknownWord, Bounds: "no estimate", Mark: markOf(s, i, name)}
	if i.Known() {
		e.Text, e.Bounds = signed(i.Value), bounds(i)
		if !i.HasInterval() {
			e.Bounds = "prediction, no interval"
			if i.N > 0 {
				e.Bounds += "; " + plural(i.N, "request")
			}
		}
	}
	return e
}

func orUnlabelled(s string) string {
	if s == "" {
		return "(not said)"
	}
	return s
}

// group is the benefit by one dimension.
type group struct {
	Name, Caption string
	Rows          []benefitRow
	Ticks         []tick
}

type benefitRow struct {
	Name, Requests, Unknown, Hurt     string
	Measured, MeasuredBounds, Replays string
	Predicted, PredictedBounds        string
	Unmeasured                        string
	Mark, Model                       mark
}

var dimensions = []struct{ by, name, caption string }{
	{"path", "By path", "By the path that was chosen, against its alternative: recomputing, or fetching where the request was recomputed"},
	{"tier", "By tier", "Fetched requests against recomputing, by the tier that the state came from"},
	{"link", "By link", "Fetched requests against recomputing, by the link that was used"},
	{"size", "By prefix size", "Fetched requests against recomputing, by the size of the prefix in tokens"},
	{"policy", "By policy", "Fetched requests against recomputing, by the policy that decided"},
}

func newGroups(rows []Benefit) (out []group) {
	for _, d := range dimensions {
		var all []*Interval
		for i := range rows {
			if rows[i].By == d.by {
				all = append(all, rows[i].Measured, rows[i].Predicted)
			}
		}
		s := symmetric(all...)
		g := group{Name: d.name, Caption: d.caption, Ticks: s.ticks(axisWord)}
		for i := range rows {
			if rows[i].By == d.by {
				g.Rows = append(g.Rows, newBenefitRow(s, &rows[i]))
			}
		}
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func newBenefitRow(s scale, b *Benefit) benefitRow {
	r := benefitRow{
		Name: orUnlabelled(b.Name), Requests: count(b.Requests),
		Unknown: share(b.Unknown, b.Requests), Hurt: share(b.Hurt, b.Requests),
		Unmeasured: percent(b.Unmeasured), Measured: unknownWord, MeasuredBounds: b.Reason, Predicted: unknownWord,
		Mark:  markOf(s, b.Measured, b.Name+", measured by replay"),
		Model: markOf(s, b.Predicted, b.Name+", predicted"),
	}
	if r.MeasuredBounds == "" {
		r.MeasuredBounds = "no replays"
	}
	if b.Measured.Known() {
		r.Measured, r.MeasuredBounds = signed(b.Measured.Value), bounds(b.Measured)
		r.Replays = plural(b.Measured.N, "replay")
	}
	if b.Predicted.Known() {
		r.Predicted, r.PredictedBounds = signed(b.Predicted.Value), bounds(b.Predicted)+"; "+plural(b.Predicted.N, "prediction")
	}
	return r
}
