package app

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
)

// Regretted is what the choices of a scope lost against those that other parts of
// the window teach, seconds a request: positive where they lost. It may be negative:
// what was learnt did not hold.
type Regretted struct {
	Scope   string           `json:"scope"`
	Regret  *report.Interval `json:"regret"`  // null where it is not known; N is requests
	Moved   report.Number    `json:"moved"`   // share of them that would have gone another way, 0 to 1
	Unknown report.Number    `json:"unknown"` // share of the requests with a choice that it says nothing of, 0 to 1
	Reason  string           `json:"reason,omitempty"`
}

func regretOf(r *verdict.Result) Regretted {
	g := r.Report.Regret
	out := Regretted{Scope: r.Scope.String(), Unknown: number(g.UnknownShare())}
	if !g.Known {
		out.Moved, out.Reason = number(math.NaN()), g.Why
		return out
	}
	out.Regret, out.Moved = between(g.Value, g.Window.Lo, g.Window.Hi, r.Level, g.N), number(g.Moved)
	if out.Regret == nil {
		out.Reason = "it has no interval"
	}
	return out
}

func regretsOf(results []*verdict.Result) []Regretted {
	out := make([]Regretted, 0, len(results))
	for _, r := range results {
		out = append(out, regretOf(r))
	}
	return out
}

func (g *Regretted) text() string {
	if g.Regret == nil {
		return fmt.Sprintf("Regret of the choices (%s): UNKNOWN: %s\n", g.Scope, g.Reason)
	}
	i := g.Regret
	return fmt.Sprintf("Regret of the choices (%s): %.4g ms a request (%.0f %% %.4g to %.4g ms) against what other parts of the window teach; %d requests, %.0f %% of them another way, %.0f %% of those with a choice unknown\n",
		g.Scope, 1e3*i.Value, 100*i.Level, 1e3*i.Low, 1e3*i.High, i.N, 100*g.Moved.V, 100*g.Unknown.V)
}
