package report

// page is what the template draws: Data with every word and place worked out.
type page struct {
	Data
	Heading string
	Window  string
	Glance  []glance
	Tally   string // verdicts counted by state
	Cards   []card
	Groups  []group
	Bars    bars
	Truth   truthView
	Terms   []termView
	Contest contestsView
	Arms    []armsView
	Worst   worstView
	Trust   trustView
	Facts   []fact
	Caveat  string // of effects on other requests

	MoreLinks, Others verdictRows

	Live     *Live         // nil: the page is a file
	Kind     string        // of a live page: "report", "request", "problem"
	Requests []requestView // of the page of a request
}

// fact is a name and what it is.
type fact struct{ Name, Text string }

func newPage(d Data) page {
	p := page{Data: d, Heading: d.Title, Window: window(d.Measured), Glance: glances(d), Tally: tally(d.Verdicts)}
	if p.Heading == "" {
		p.Heading = "KV reuse: did it help?"
	}
	first, moreLinks, others := split(d.Verdicts)
	for _, v := range first {
		p.Cards = append(p.Cards, newCard(v))
	}
	p.MoreLinks, p.Others = newVerdictRows("More links", moreLinks), newVerdictRows("Other pairs", others)
	if caveated(d.Verdicts) {
		p.Caveat = OthersCaveat
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

// group is the benefit by one dimension.
type group struct {
	Name, Caption string
	Rows          []benefitRow
	Ticks         []tick
}

type benefitRow struct {
	Name, Requests, Hurt              string
	Measured, MeasuredBounds, Replays string
	Predicted, PredictedBounds        string
	Missing                           []string // what the numbers do not cover
	Mark, Model                       mark
}

var dimensions = []struct{ by, name, caption string }{
	{"path", "By path", "By the path that was chosen, against its alternative: recomputing, or fetching where the request was recomputed. Resident: all of the prefix that anyone held was in this GPU already, so there was nothing to fetch and no alternative was weighed"},
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
		Missing: missing(b), Measured: unknownWord, MeasuredBounds: b.Reason, Predicted: unknownWord,
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
		r.Hurt = share(b.Hurt, b.Requests-b.Unknown) + " of requests slower"
	}
	return r
}

// missing says what share of the requests the numbers say nothing of.
func missing(b *Benefit) (out []string) {
	if b.Measured == nil || !b.Unmeasured.Known() {
		out = append(out, "not measured")
	} else if b.Unmeasured.V > 0 {
		out = append(out, percent(b.Unmeasured)+" not measured")
	}
	switch {
	case b.Unknown >= b.Requests || !b.Predicted.Known():
		out = append(out, "not predicted")
	case b.Unknown > 0:
		out = append(out, share(b.Unknown, b.Requests)+" not predicted")
	}
	if out == nil {
		out = []string{"nothing"}
	}
	return out
}
