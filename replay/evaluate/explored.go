package evaluate

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// LoggedOf makes a row for Weigh of a decision whose propensities were logged, and
// ok is false where they were not or the outcome (seconds) is not known. The policy
// chooses a path by what was known before the draw: it sees the likeliest candidate
// as the choice. Within the path its candidate is drawn as the deployed policy did,
// so that a fetch of half and one of all are both a fetch.
func LoggedOf(d *schema.Decision, p *Policy, outcome float64, block int64) (row Logged, ok bool) {
	if !d.Chosen.OK || d.Chosen.V < 0 || d.Chosen.V >= int64(len(d.Candidates)) || !finite(outcome) {
		return row, false
	}
	chosen, all := &d.Candidates[d.Chosen.V], 0.0
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if !(c.Propensity >= 0 && c.Propensity <= 1) {
			return row, false
		}
		all += c.Propensity
	}
	if !(chosen.Propensity > 0) || math.Abs(all-1) > 1e-3 {
		return row, false
	}
	row = Logged{Block: block, Outcome: outcome, Propensity: chosen.Propensity}
	if p.Kind == KindLogged {
		row.Target = chosen.Propensity
		return row, true
	}
	path, ok := p.Intend(d)
	if !ok {
		return row, false
	}
	row.target(d, path)
	return row, true
}

// Intend is Choose by what was known before a draw: where the deployed policy
// explored, its likeliest candidate counts as the choice.
func (p *Policy) Intend(d *schema.Decision) (schema.Path, bool) {
	if p.Kind == KindLogged || !Explores(d) {
		return p.Choose(d)
	}
	likeliest := 0
	for i := range d.Candidates {
		if d.Candidates[i].Propensity > d.Candidates[likeliest].Propensity {
			likeliest = i
		}
	}
	before := *d
	before.Chosen, before.Path = schema.Some(int64(likeliest)), d.Candidates[likeliest].Path
	return p.Choose(&before)
}

// target fills in what a policy that runs path does.
func (r *Logged) target(d *schema.Decision, path schema.Path) {
	chosen, share, model := &d.Candidates[d.Chosen.V], 0.0, 0.0
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Path == path {
			share += c.Propensity
			if c.Propensity > 0 {
				model += c.Propensity * c.TTFT
			}
		}
	}
	if share <= 0 {
		r.Unsupported = 1
		return
	}
	if chosen.Path == path {
		r.Target = math.Min(1, chosen.Propensity/share)
	}
	if model /= share; finite(model) && finite(chosen.TTFT) {
		r.ModelTarget, r.ModelTaken = model, chosen.TTFT
	}
}

// Explores says that some choice of the decision was left to chance.
func Explores(d *schema.Decision) bool {
	for i := range d.Candidates {
		if p := d.Candidates[i].Propensity; p > 0 && p < 1 {
			return true
		}
	}
	return false
}
