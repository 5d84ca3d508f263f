package verdict

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Version is that of the estimator's definition, in estimates and verdicts.
const Version = 1

// estimateKey is what makes a row of estimates one.
type estimateKey struct {
	Block     time.Time `ch:"block"`
	From      string    `ch:"pair_from"`
	To        string    `ch:"pair_to"`
	Estimator string    `ch:"estimator"`
	Policy    string    `ch:"policy"`
	Model     string    `ch:"model"`
	Tier      string    `ch:"tier"`
	Link      string    `ch:"link"`
	Size      int8      `ch:"size_bucket"`
}

// estimateRow is a row of estimates.
type estimateRow struct {
	estimateKey
	BlockSeconds uint32    `ch:"block_seconds"`
	Version      uint32    `ch:"version"`
	Revision     int64     `ch:"revision"`
	Plan         string    `ch:"plan"`
	N            uint64    `ch:"n"`
	Unknown      uint64    `ch:"unknown"`
	Legs         uint64    `ch:"legs"`
	Planned      uint64    `ch:"planned"`
	Controls     uint64    `ch:"controls"`
	SumPhi       float64   `ch:"sum_phi"`
	SumPhi2      float64   `ch:"sum_phi2"`
	SumVar       float64   `ch:"sum_var"`
	SumWeight    float64   `ch:"sum_weight"`
	SumWeight2   float64   `ch:"sum_weight2"`
	MaxWeight    float64   `ch:"max_weight"`
	Delta        *float64  `ch:"delta"`
	DeltaVar     *float64  `ch:"delta_var"`
	Reason       string    `ch:"reason"`
	Computed     time.Time `ch:"computed"`
}

// Row is a row of verdicts. Durations are seconds; nil is not known.
type Row struct {
	At           time.Time `ch:"at"`
	From         time.Time `ch:"window_from"`
	Until        time.Time `ch:"window_until"`
	Target       string    `ch:"target"` // "window" or "next"
	Policy       string    `ch:"policy"`
	Model        string    `ch:"model"`
	Tier         string    `ch:"tier"`
	Link         string    `ch:"link"`
	Size         string    `ch:"size_bucket"`
	PairFrom     string    `ch:"pair_from"`
	PairTo       string    `ch:"pair_to"`
	Estimator    string    `ch:"estimator"` // "aipw"; naive, direct, ipw and snipw are for comparison only; "regret" is of all choices, PairFrom and PairTo ""
	Version      uint32    `ch:"version"`
	Verdict      string    `ch:"verdict"` // "helps", "hurts", "even" or "unknown"
	Estimate     *float64  `ch:"estimate"`
	Lo           *float64  `ch:"lo"`
	Hi           *float64  `ch:"hi"`
	Level        float64   `ch:"level"`
	N            uint64    `ch:"n"`
	Legs         uint64    `ch:"legs"`
	Controls     uint64    `ch:"controls"`
	ESS          float64   `ch:"ess"`
	MaxWeight    float64   `ch:"max_weight"`
	ParetoK      *float64  `ch:"pareto_k"`
	UnknownShare float64   `ch:"unknown_share"`
	Reason       string    `ch:"reason"`
	Plan         string    `ch:"plan"`
	Revision     int64     `ch:"revision"`
}

// State is the word of a row.
func (r *Row) State() State {
	switch r.Verdict {
	case "helps":
		return Helping
	case "hurts":
		return Hurting
	case "even":
		return Even
	}
	return Unknown
}

func (s State) stored() string {
	switch s {
	case Helping:
		return "helps"
	case Hurting:
		return "hurts"
	case Even:
		return "even"
	}
	return "unknown"
}

// estimateRows are the result's sums, a row a contribution.
func (r *Result) estimateRows() []estimateRow {
	pairs := map[[2]schema.Path]Finding{}
	for _, f := range r.Findings {
		pairs[[2]schema.Path{f.Pair.From, f.Pair.To}] = f
	}
	out := make([]estimateRow, 0, len(r.Report.Contributions))
	for i := range r.Report.Contributions {
		c := &r.Report.Contributions[i]
		f, ok := pairs[[2]schema.Path{c.From, c.To}]
		row := r.estimateRow(c, r.support[keyOf(c)])
		switch {
		case !ok:
			row.Reason = "no candidate of another path was logged"
		case !f.Pair.Known:
			row.Reason = f.Why
		}
		row.Controls = uint64(f.Pair.Controls)
		row.Delta, row.DeltaVar = known(f.Pair.Delta), known(c.DeltaSE*c.DeltaSE)
		if !f.Pair.Known {
			row.Delta, row.DeltaVar = nil, nil
		}
		out = append(out, row)
	}
	return out
}

func (r *Result) estimateRow(c *estimate.Contribution, u *support) estimateRow {
	if u == nil {
		u = &support{}
	}
	return estimateRow{
		estimateKey: estimateKey{
			Block: time.Unix(0, c.Block*int64(r.Block)).UTC(), From: c.From.String(), To: c.To.String(), Estimator: "aipw",
			Policy: c.Slice.Policy, Model: c.Slice.Model, Tier: c.Slice.Tier, Link: c.Slice.Link, Size: int8(c.Slice.Size),
		},
		BlockSeconds: uint32(r.Block / time.Second), Version: Version, Revision: u.revision, Plan: u.plan,
		N: uint64(c.N), Unknown: uint64(c.Unknown), Legs: uint64(c.Legs), Planned: uint64(math.Round(u.planned)),
		SumPhi: c.Sum, SumPhi2: c.Sum2, SumVar: u.variance, SumWeight: u.weight, SumWeight2: u.weight2, MaxWeight: u.widest,
		Computed: r.At,
	}
}

// verdictRows are the result's verdicts: of each pair as a whole, for this window
// and for what comes next, with the other estimators beside; and of each pair
// within each slice, for this window.
func (r *Result) verdictRows() []Row {
	var out []Row
	whole := r.Findings
	if !r.headlineFound() {
		whole = append([]Finding{r.Headline}, whole...)
	}
	for _, f := range whole {
		out = append(out, r.row(f, "window", f.State, f.Pair.Window))
		out = append(out, r.row(f, "next", f.Next, f.Pair.NextHour))
		out = append(out, r.beside(f)...)
	}
	out = append(out, r.regretRow())
	for _, e := range r.Report.Slices {
		if row, ok := r.sliceRow(e); ok {
			out = append(out, row)
		}
	}
	return out
}

func (r *Result) headlineFound() bool {
	for _, f := range r.Findings {
		if f.Pair.From == r.Headline.Pair.From && f.Pair.To == r.Headline.Pair.To {
			return true
		}
	}
	return false
}

func (r *Result) row(f Finding, target string, state State, i estimate.Interval) Row {
	p := f.Pair
	row := Row{
		At: r.At, From: r.Window.From, Until: r.Window.Until, Target: target,
		Policy: r.Scope.Policy, Model: r.Scope.Model, Tier: r.Scope.Tier, Link: r.Scope.Link,
		PairFrom: p.From.String(), PairTo: p.To.String(), Estimator: "aipw", Version: Version,
		Verdict: state.stored(), Estimate: known(p.Theta), Lo: known(i.Lo), Hi: known(i.Hi), Level: r.Level,
		N: uint64(p.N), Legs: uint64(p.Legs), Controls: uint64(p.Controls), ESS: p.ESS, MaxWeight: p.MaxWeight, ParetoK: known(p.ParetoK),
		UnknownShare: f.Unknown, Reason: f.Why, Plan: r.Plan, Revision: r.Revision,
	}
	if row.Lo == nil && p.Known {
		row.Reason = fmt.Sprintf("%d blocks of time are too few for an interval of what comes next", p.Blocks)
	}
	return row
}

// beside are the estimates that are not to be trusted, for comparison.
func (r *Result) beside(f Finding) (out []Row) {
	if !f.Pair.Known {
		return nil
	}
	nan := math.NaN()
	for _, e := range [...]struct {
		name  string
		value float64
	}{{"naive", f.Pair.Naive}, {"direct", f.Pair.Direct}, {"ipw", f.Pair.IPW}, {"snipw", f.Pair.SNIPW}} {
		row := r.row(f, "window", Unknown, estimate.Interval{Lo: nan, Hi: nan, SE: nan})
		row.Estimator, row.Estimate, row.Reason = e.name, known(e.value), "for comparison with aipw only"
		out = append(out, row)
	}
	return out
}

// regretRow is the choices as a whole against those that other parts of the window
// teach. As in all rows a positive estimate is in favour of the choices, so it is
// the regret with its sign changed.
func (r *Result) regretRow() Row {
	g := r.Report.Regret
	i := estimate.Interval{Lo: -g.Window.Hi, Hi: -g.Window.Lo, SE: g.Window.SE}
	p := estimate.Pair{Known: g.Known, Theta: -g.Value, N: g.N, ParetoK: math.NaN()}
	f := Finding{Pair: p, Unknown: g.UnknownShare(), Why: g.Why}
	state := Unknown
	if g.Known {
		state = stateOf(i, 0)
		f.Why = fmt.Sprintf("regret with its sign changed: what is learnt on other parts of the window sends %.3g %% of the requests another way", 100*g.Moved)
	} else {
		p.Theta, i = math.NaN(), estimate.Interval{Lo: math.NaN(), Hi: math.NaN(), SE: math.NaN()}
		f.Pair = p
	}
	row := r.row(f, "window", state, i)
	row.Estimator, row.PairFrom, row.PairTo = "regret", "", ""
	return row
}

// sliceRow is a verdict of a slice, by an interval that holds for all slices of the
// pair at once, for readers look for the one that stands out; none of a value that is not known, for ""
// means all.
func (r *Result) sliceRow(e estimate.SliceEstimate) (Row, bool) {
	f := Finding{Pair: e.Pair, State: Unknown, Why: e.Pair.Why, Unknown: e.Pair.UnknownShare()}
	if e.Pair.Known {
		f.State = stateOf(e.Family, r.even*e.Pair.MeanChosen)
	}
	row := r.row(f, "window", f.State, e.Family)
	at := map[string]*string{"policy": &row.Policy, "model": &row.Model, "tier": &row.Tier, "link": &row.Link, "size": &row.Size}[e.Dimension]
	if at == nil || e.Value == "" || *at != "" { // already the scope's own
		return Row{}, false
	}
	*at = e.Value
	if e.Dimension == "size" {
		*at = sizeNumber(e.Value)
	}
	return row, true
}

func sizeNumber(name string) string {
	for i := range len(schema.SizeBuckets) + 1 {
		if schema.SizeBucketName(i) == name {
			return strconv.Itoa(i)
		}
	}
	return name
}

// known is nil where x is not a finite number.
func known(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
