package app

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
	"github.com/kvwhatif/kvwhatif/schema"
)

// number is a float of the report: missing where it is not finite.
func number(v float64) report.Number {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return report.Number{}
	}
	return report.Num(v)
}

// between is an interval of the report; nil where there is no estimate or a bound
// is missing.
func between(value, low, high, level float64, n int) *report.Interval {
	i := &report.Interval{Value: value, Low: low, High: high, Level: level, N: int64(n)}
	if !i.HasInterval() {
		return nil
	}
	return i
}

// point is an estimate without its interval; nil where there is none.
func point(value float64, n int) *report.Interval {
	i := &report.Interval{Value: value, N: int64(n)}
	if !i.Known() {
		return nil
	}
	return i
}

// meanOf is a mean with its interval, or alone where it has none; n is what the
// report counts it by.
func meanOf(m verdict.Mean, n int) *report.Interval {
	if !m.Known {
		return nil
	}
	if i := between(m.Value, m.Lo, m.Hi, m.Level, n); i != nil {
		return i
	}
	return point(m.Value, n)
}

// reportStates are the estimator's words in the report's.
var reportStates = map[verdict.State]report.State{
	verdict.Helping: report.Helping, verdict.Hurting: report.Hurting, verdict.Even: report.Even, verdict.Unknown: report.Unknown,
}

// verdictOf is one finding as the report shows it. The effect on others is a
// prediction, so the net effect has no interval.
func verdictOf(r *verdict.Result, f *verdict.Finding) report.Verdict {
	p := &f.Pair
	v := report.Verdict{
		Link: r.Scope.Link, Policy: r.Scope.Policy, Model: r.Scope.Model, Tier: r.Scope.Tier,
		Path: p.From.String(), Alternative: p.To.String(), State: reportStates[f.State],
		Requests: int64(p.N), Replays: int64(p.Legs), Others: meanOf(f.Others, f.Others.N),
	}
	if p.Known {
		v.Own = between(p.Theta, p.Window.Lo, p.Window.Hi, r.Level, p.Legs)
	} else {
		v.Requests = int64(p.N + p.Unknown + p.Infeasible)
	}
	switch {
	case v.State == report.Unknown && v.Own.Known():
		v.Reason = report.CoversZero
	case v.State == report.Unknown:
		v.Reason = f.Why
	}
	if v.Own.Known() && v.Others.Known() {
		v.Net = point(v.Own.Value+v.Others.Value, 0)
	}
	return v
}

// otherFindings are those of a result beside its headline.
func otherFindings(r *verdict.Result) (out []*verdict.Finding) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Pair.From != r.Headline.Pair.From || f.Pair.To != r.Headline.Pair.To {
			out = append(out, f)
		}
	}
	return out
}

// verdictsOf are the verdicts of every scope: fetched against recomputed first,
// and of these the hurting ones.
func verdictsOf(results []*verdict.Result) []report.Verdict {
	var first, rest []report.Verdict
	for _, r := range results {
		first = append(first, verdictOf(r, &r.Headline))
		for _, f := range otherFindings(r) {
			rest = append(rest, verdictOf(r, f))
		}
	}
	order := map[report.State]int{report.Hurting: 0, report.Unknown: 1, report.Even: 2, report.Helping: 3}
	for _, part := range [][]report.Verdict{first, rest} {
		slices.SortStableFunc(part, func(a, b report.Verdict) int {
			return cmp.Compare(order[a.Shown()], order[b.Shown()])
		})
	}
	return append(first, rest...)
}

// benefitsOf is where it helps, of one result.
func benefitsOf(r *verdict.Result) []report.Benefit {
	out := make([]report.Benefit, 0, len(r.Benefits))
	for i := range r.Benefits {
		b := &r.Benefits[i]
		row := report.Benefit{
			By: b.By, Name: b.Value, Requests: int64(b.Decisions), Hurt: int64(b.Hurt), Unknown: int64(b.NoAnswer),
			Predicted: meanOf(b.Predicted, b.Predicted.N), Unmeasured: number(b.Unmeasured), Reason: b.Measured.Why,
		}
		if b.Measured.HasInterval() {
			row.Measured = meanOf(b.Measured, b.Measured.Legs)
		}
		out = append(out, row)
	}
	return out
}

// methodsOf are the estimators' answers for one pair, the one that verdicts use
// first; only that one has an interval.
func methodsOf(r *verdict.Result, p *estimate.Pair) []report.Method {
	if !p.Known {
		return []report.Method{{Name: "AIPW", Reason: p.Why}}
	}
	return []report.Method{
		{Name: "AIPW", Estimate: between(p.Theta, p.Window.Lo, p.Window.Hi, r.Level, p.Legs)},
		{Name: "SNIPW", Estimate: point(p.SNIPW, p.Legs)},
		{Name: "IPW", Estimate: point(p.IPW, p.Legs)},
		{Name: "direct", Estimate: point(p.Direct, p.Legs)},
		{Name: "naive", Estimate: point(p.Naive, p.Legs)},
	}
}

// truthsOf holds every pair's estimates, headline first, for the truth to be set
// beside them; Requests is of the estimate.
func truthsOf(results []*verdict.Result) (out []report.Truth) {
	for _, r := range results {
		for _, f := range append([]*verdict.Finding{&r.Headline}, otherFindings(r)...) {
			p := &f.Pair
			out = append(out, report.Truth{
				Path: p.From.String(), Alternative: p.To.String(), Link: r.Scope.Link,
				Requests: int64(p.N), Methods: methodsOf(r, p),
			})
		}
	}
	return out
}

// supportOf says how well each estimate is carried by its sample.
func supportOf(results []*verdict.Result) (out []report.Support) {
	for _, r := range results {
		for _, f := range append([]*verdict.Finding{&r.Headline}, otherFindings(r)...) {
			p := &f.Pair
			out = append(out, report.Support{
				Of:      fmt.Sprintf("%s: %s against %s", r.Scope, p.From, p.To),
				Replays: int64(p.Legs), ESS: number(p.ESS), LargestWeight: number(p.MaxWeight), ParetoK: number(p.ParetoK),
			})
		}
	}
	return out
}

// legsOf are the replays drawn and back of one result, by size.
func legsOf(r *verdict.Result) (out []report.Legs) {
	for _, c := range r.Legs {
		out = append(out, report.Legs{
			Size: sizeName(c.Size), Leg: c.Leg.String(), Intended: number(c.Intended), Executed: int64(c.Executed),
		})
	}
	return out
}

func sizeName(bucket int) string {
	if bucket < 0 {
		return "unknown"
	}
	return schema.SizeBucketName(bucket)
}

// refusalsOf counts why estimates were refused.
func refusalsOf(results []*verdict.Result) (out []report.Count) {
	for _, r := range results {
		for _, f := range append([]*verdict.Finding{&r.Headline}, otherFindings(r)...) {
			if f.Pair.Known {
				continue
			}
			reason := "estimate refused: " + f.Why
			i := slices.IndexFunc(out, func(c report.Count) bool { return c.Reason == reason })
			if i < 0 {
				i, out = len(out), append(out, report.Count{Reason: reason})
			}
			out[i].N++
		}
	}
	return out
}

// coverageOf is what one result says of how much its answers rest on. Beyond the
// decisions a result knows no requests.
func coverageOf(r *verdict.Result) report.Coverage {
	return report.Coverage{
		Requests: int64(r.Decisions), WithDecision: int64(r.Decisions), Predicted: int64(r.Predicted), Sampled: int64(r.Sampled),
		Legs: legsOf(r),
	}
}
