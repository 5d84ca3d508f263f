package replay

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// DecisionOf makes the estimator's view of a recorded decision. The plan must be
// the one that drew its legs: the draw is repeated, so that what was intended is
// known although it never ran. block is its block of time. A decision that can
// not be replayed comes out with nothing but what it says, and is counted as
// unknown.
func DecisionOf(plan *sample.Plan, part *schema.Part, block int64) estimate.Decision {
	d := &part.Decision
	stratum := plan.StratumOf(d)
	out := estimate.Decision{
		ID: part.RowID(), Block: block, Path: d.Path, Stratum: stratum.String(), Load: stratum.Load,
		Slice: estimate.Slice{Policy: d.Policy, Model: d.Model, Tier: stratum.Tier.String(), Link: sliceLink(d), Size: stratum.Size},
		Y:     or(part.Observed.TTFT, math.NaN()),
	}
	for path, i := range sample.Alternatives(d) {
		out.Model[path] = math.NaN()
		if i >= 0 {
			out.Model[path] = d.Candidates[i].TTFT
		}
	}
	if i := d.Alternative(); i >= 0 {
		out.Alternative = d.Candidates[i].Path
	}
	for _, draw := range plan.Draw(part) {
		out.Intended[draw.Path] = 1
	}
	return out
}

// sliceLink is the link of the choice, else the one that the alternative would
// use, else the first that any candidate would: a decision belongs to the link
// that it could have loaded.
func sliceLink(d *schema.Decision) string {
	if d.Link != "" {
		return d.Link
	}
	if i := d.Alternative(); i >= 0 && d.Candidates[i].Links != "" {
		return linkOf(&d.Candidates[i])
	}
	for i := range d.Candidates {
		if d.Candidates[i].Links != "" {
			return linkOf(&d.Candidates[i])
		}
	}
	return ""
}

// LegOf makes the estimator's view of a replay part.
func LegOf(part *schema.Part) (estimate.Leg, error) {
	if part.Kind != schema.KindReplay {
		return estimate.Leg{}, fmt.Errorf("part %s is of kind %d, not a replay", part.RowID(), part.Kind)
	}
	r := &part.Replay
	nan := math.NaN()
	return estimate.Leg{
		Of: schema.NewRowID(r.Of, r.OfSpan), Path: r.Path, Kind: r.Leg, Inclusion: r.Inclusion, Batch: r.Batch,
		Y: or(part.Observed.TTFT, nan), ModelDecision: or(r.ModelDecision, nan), ModelReplay: or(r.ModelReplay, nan),
	}, nil
}

func or(x schema.Seconds, missing float64) float64 { return x.Or(missing) }
