package report

import "strconv"

// trustView is coverage in words.
type trustView struct {
	Facts    []fact
	Dead     string // what is known of dead letters, where there are none to list
	Pareto   bool   // some Pareto k is known
	Intended bool   // of some legs it is known how many were intended
	Even     bool   // every leg that was drawn was run
	Legs     []legRow
	Support  []supportRow
}

type legRow struct{ Size, Leg, Intended, Executed, Share, Width string }

type supportRow struct{ Of, Replays, ESS, Largest, ParetoK, Judged string }

func newTrust(c Coverage) (v trustView) {
	v.Facts = []fact{
		{"Requests", count(c.Requests)},
		{"With a decision", withShare(c.WithDecision, c.Requests)},
		{"With a predicted alternative", withShare(c.Predicted, c.Requests)},
		{"Drawn for replay", withShare(c.Sampled, c.Requests)},
		{"Parts waiting for their request", count(c.Waiting)},
		{"Parts whose request never came", count(c.Orphans)},
		{"Requests with a span of two contents", count(c.Conflicts)},
		{"Acknowledged to senders", amount(c.Accepted)},
		{"Acknowledged and lost", amount(c.Lost)},
		{"Stored twice", amount(c.Doubled)},
	}
	v.Dead = "Nobody counted dead letters for this report: see the topic kvreuse.dead."
	if c.Dead.Known() {
		v.Dead = plural(int64(c.Dead.V), "dead letter") + " in the topic kvreuse.dead."
	}
	v.Even = len(c.Legs) > 0
	for _, l := range c.Legs {
		v.Intended = v.Intended || l.Intended.Known()
		v.Even = v.Even && l.Intended.Known() && float64(l.Executed) == l.Intended.V
		v.Legs = append(v.Legs, legRow{orUnlabelled(l.Size), orUnlabelled(l.Leg), amount(l.Intended), count(l.Executed), share(l.Executed, int64(l.Intended.V)), legWidth(l)})
	}
	for _, s := range c.Support {
		v.Pareto = v.Pareto || s.ParetoK.Known()
		row := supportRow{s.Of, count(s.Replays), optional(s.ESS), percent(s.LargestWeight), optional(s.ParetoK), judge(s)}
		if s.Replays == 0 { // there are no weights
			row.ESS, row.Largest = "–", "–"
		}
		v.Support = append(v.Support, row)
	}
	return v
}

// withShare is part with its share of whole, where there is a whole.
func withShare(part, whole int64) string {
	if whole <= 0 {
		return count(part)
	}
	return count(part) + " (" + share(part, whole) + ")"
}

func legWidth(l Legs) string {
	if !l.Intended.Known() || l.Intended.V <= 0 {
		return "0%"
	}
	return pct(min(100, 100*float64(l.Executed)/l.Intended.V))
}

// judge says whether weights are fit to be trusted: a Pareto k of 0.7 or more is
// not (Vehtari et al., Pareto smoothed importance sampling, 2024).
func judge(s Support) string {
	switch {
	case s.Replays == 0:
		return "none"
	case s.Replays < 20 || s.ESS.Known() && s.ESS.V < 20:
		return "too few"
	case !s.ParetoK.Known() && s.LargestWeight.Known() && s.LargestWeight.V <= 0.1:
		return "even" // and so without a tail to judge
	case !s.ParetoK.Known():
		return "not judged"
	case s.ParetoK.V >= 0.7:
		return "not to be trusted"
	}
	return "usable"
}

func amount(n Number) string {
	if !n.Known() {
		return unknownWord
	}
	return count(int64(n.V))
}

func optional(n Number) string {
	if !n.Known() {
		return unknownWord
	}
	return minus(trim(n.V))
}

func measuredFacts(d Data) []fact {
	m := d.Measured
	source := "the spans that arrived"
	if d.Simulated {
		source = "the fleet simulator, not a real fleet"
	}
	return []fact{
		{"Source", source},
		{"Window", moment(m.From) + " to " + moment(m.Until)},
		{"Made", moment(m.Generated) + ", in " + wall(m.Wall)},
		{"Command", orUnlabelled(m.Command)},
		{"Version", orUnlabelled(m.Version)},
		{"Machine", orUnlabelled(m.Machine)},
		{"Coefficients", revision(d.Calibration.Revision)},
	}
}

func revision(r int64) string {
	if r == 0 {
		return "none in force"
	}
	return "revision " + strconv.FormatInt(r, 10)
}
