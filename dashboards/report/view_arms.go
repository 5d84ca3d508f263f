package report

// armsView is policies compared on one link's traffic.
type armsView struct {
	Link  string // "" where there is one comparison only
	Rows  []armRow
	Ticks []tick
	AA    []string // what the A/A arms say, in words
}

type armRow struct {
	Name, Note, Requests, Mean, P50, P95, P99, Gain, Bounds, N string
	Mark                                                       mark
	Plot                                                       bool
}

// newArms makes a table of each link, in the order in which they come.
func newArms(all []Arm) (out []armsView) {
	at := map[string]int{}
	groups := [][]*Arm{}
	for i := range all {
		a := &all[i]
		if _, ok := at[a.Link]; !ok {
			at[a.Link] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[a.Link]] = append(groups[at[a.Link]], a)
	}
	for _, g := range groups {
		out = append(out, newArmsOf(g))
	}
	return out
}

func newArmsOf(arms []*Arm) armsView {
	v := armsView{Link: arms[0].Link}
	gains := make([]*Interval, 0, len(arms))
	for _, a := range arms {
		gains = append(gains, a.Gain)
	}
	s, unit := fitted(gains...), armsUnit(arms)
	v.Ticks = s.ticks(axisWord)
	for _, a := range arms {
		v.Rows = append(v.Rows, newArmRow(s, a, unit))
		if a.AA {
			v.AA = append(v.AA, sayAA(a))
		}
	}
	return v
}

// armsUnit is one unit for all of a table's times, so that they can be compared
// at a glance.
func armsUnit(arms []*Arm) func(Number) string {
	var all []Number
	for _, a := range arms {
		all = append(all, a.Mean, a.P50, a.P95, a.P99)
	}
	return oneUnit(all...)
}

func newArmRow(s scale, a *Arm, word func(Number) string) armRow {
	r := armRow{Name: orUnlabelled(a.Policy), Note: a.Note, Requests: armRequests(a), Mean: word(a.Mean), P50: word(a.P50), P95: word(a.P95), P99: word(a.P99), N: "no pairs"}
	switch {
	case a.AA && r.Note == "":
		r.Note = "A/A: the default with another seed"
	case a.Default:
		if r.Note == "" {
			r.Note = "the default"
		}
		r.Gain, r.Bounds = "–", "the others are compared with it"
		return r
	}
	r.Gain, r.Bounds, r.Plot, r.Mark = unknownWord, a.Reason, true, markOf(s, a.Gain, a.Policy)
	if r.Bounds == "" {
		r.Bounds = "no paired requests"
	}
	if a.Gain.Known() {
		r.Gain, r.Bounds, r.N = signed(a.Gain.Value), bounds(a.Gain), plural(a.Gain.N, "pair")+armRuns(a)
	}
	return r
}

// sayAA says what the A/A arm shows: two runs of one policy must not differ.
func sayAA(a *Arm) string {
	arm := "The A/A arm"
	if a.Link != "" {
		arm += " on link " + a.Link
	}
	switch {
	case !a.Gain.HasInterval():
		return arm + " has no interval, so nothing shows that this comparison finds no difference where there is none."
	case a.Gain.Low <= 0 && a.Gain.High >= 0:
		return arm + " ran the default policy again with another seed: its interval (" + span(a.Gain.Low, a.Gain.High) + ") covers no difference, as it must."
	}
	return arm + " ran the default policy again with another seed, and its interval (" + span(a.Gain.Low, a.Gain.High) + ") does NOT cover no difference: this comparison finds differences where there are none. Do not trust it."
}

// armRequests is how many requests an arm's figures are of.
func armRequests(a *Arm) string { return plural(a.Requests, "request") + armRuns(a) }

func armRuns(a *Arm) string {
	if a.Runs == 0 {
		return ""
	}
	return " in " + plural(a.Runs, "run")
}
