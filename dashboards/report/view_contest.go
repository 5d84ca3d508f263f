package report

// contestsView is challenger against champion, or against the bound where there
// is no champion.
type contestsView struct {
	Rows, Minor []contestView // those that matter, and those that do not
	Champion    bool          // there was one
}

type contestView struct{ Slice, N, Champion, Challenger, Result, Kind string }

// minorOutcome is the gate's word for a slice that holds too little of the traffic.
const minorOutcome = "minor"

// outcomes are the gate's words for people.
var outcomes = map[string]string{
	"better": "better", "same": "not worse", "worse": "maybe worse", "too few": "not judged: too few requests", "no law": "without a law here",
	"within": "within the bound", "beyond": "over the bound", minorOutcome: "too rare to matter",
}

func newContests(all []Contest) (v contestsView) {
	for _, c := range all {
		v.Champion = v.Champion || c.Champion.Known()
	}
	for _, c := range all {
		row := contestView{c.Slice, count(c.N), percent(c.Champion), percent(c.Challenger), outcomes[c.Outcome], "outside"}
		if c.Passed {
			row.Kind = "inside"
		}
		if !v.Champion { // no column of it
			row.Champion = ""
		}
		switch {
		case row.Result != "":
		case c.Outcome != "":
			row.Result = c.Outcome
		case c.Passed:
			row.Result = "passed"
		default:
			row.Result = "did not pass"
		}
		if c.Outcome == minorOutcome {
			row.Kind = ""
			v.Minor = append(v.Minor, row)
		} else {
			v.Rows = append(v.Rows, row)
		}
	}
	return v
}
