package app

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
	"github.com/kvwhatif/kvwhatif/schema"
)

// found is a finding on fetched requests, of 100 of which 30 were replayed.
func found(to schema.Path, state verdict.State, theta, low, high float64) verdict.Finding {
	f := verdict.Finding{State: state, Why: "because", Pair: estimate.Pair{
		From: schema.PathFetch, To: to, Known: !math.IsNaN(theta), Why: "because", N: 100, Unknown: 5, Infeasible: 3, Legs: 30,
		Theta: theta, Window: estimate.Interval{Lo: low, Hi: high}, Naive: theta, IPW: theta, SNIPW: theta, ESS: 12, MaxWeight: math.NaN(),
	}}
	f.Others = verdict.Mean{Known: true, Value: -0.01, Lo: math.NaN(), Hi: math.NaN(), Level: 0.95, N: 80}
	return f
}

func judged(link string, headline verdict.Finding, others ...verdict.Finding) *verdict.Result {
	return &verdict.Result{
		Scope: verdict.Scope{Link: link}, Level: 0.95, Headline: headline, Findings: append([]verdict.Finding{headline}, others...),
		Decisions: 108, Predicted: 90, Sampled: 40, Legs: []verdict.Completeness{{Size: -1, Leg: schema.LegControl, Intended: 4, Executed: 3}},
	}
}

func TestVerdictsOf(t *testing.T) {
	nan := math.NaN()
	results := []*verdict.Result{
		judged("a", found(schema.PathRecompute, verdict.Helping, 0.2, 0.1, 0.3), found(schema.PathRoute, verdict.Unknown, nan, nan, nan)),
		judged("b", found(schema.PathRecompute, verdict.Hurting, -0.2, -0.3, -0.1)),
	}
	all := verdictsOf(results)
	require.Len(t, all, 3)
	require.Equal(t, []report.State{report.Hurting, report.Helping, report.Unknown},
		[]report.State{all[0].Shown(), all[1].Shown(), all[2].Shown()}, "hurting first, other pairs last")
	helping, unknown := &all[1], &all[2]
	require.Equal(t, &report.Interval{Value: 0.2, Low: 0.1, High: 0.3, Level: 0.95, N: 30}, helping.Own)
	require.InDelta(t, 0.19, helping.Net.Value, 1e-12)
	require.False(t, helping.Net.HasInterval(), "the effect on others is a prediction")
	require.EqualValues(t, 100, helping.Requests)
	require.Nil(t, unknown.Own)
	require.Nil(t, unknown.Net)
	require.EqualValues(t, 108, unknown.Requests, "all that chose the path")
	require.Equal(t, "because", unknown.Reason)

	answer := answerOf(results, nil)
	require.Contains(t, answer.Failing([]string{"hurting"}), "On link b")
	require.Empty(t, answer.Failing([]string{"even", "unknown"}), "only fetched against recomputed counts")
	raw, err := json.Marshal(answer)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "NaN")
	require.Contains(t, answer.Text(), "HURTING")
	require.Equal(t, []report.Count{{Reason: "estimate refused: because", N: 1}}, answer.data.Coverage.Refusals)
	require.Equal(t, "unknown", answer.data.Coverage.Legs[0].Size)
	require.False(t, answer.data.Coverage.Support[0].LargestWeight.OK)
	require.Nil(t, answer.data.Truths[1].Methods[0].Estimate)
	require.Equal(t, "because", answer.data.Truths[1].Methods[0].Reason)
}

func TestRegretIsInTheAnswer(t *testing.T) {
	nan := math.NaN()
	known := judged("", found(schema.PathRecompute, verdict.Hurting, -0.2, -0.3, -0.1))
	known.Report.Regret = estimate.Regret{Known: true, Value: 0.031, Window: estimate.Interval{Lo: 0.02, Hi: 0.042}, N: 90, Unknown: 10, Moved: 0.25}
	unknown := judged("b", found(schema.PathRecompute, verdict.Unknown, nan, nan, nan))
	unknown.Report.Regret = estimate.Regret{Value: nan, Window: estimate.Interval{Lo: nan, Hi: nan}, Moved: nan, Why: "no pair is known"}
	answer := answerOf([]*verdict.Result{known, unknown}, nil)
	require.Contains(t, answer.Text(), "Regret of the choices (everything): 31 ms a request (95 % 20 to 42 ms)")
	require.Contains(t, answerOf([]*verdict.Result{unknown}, nil).Text(), "Regret of the choices (link b): UNKNOWN: no pair is known")
	raw, err := json.Marshal(answer)
	require.NoError(t, err)
	var got struct {
		Verdicts []json.RawMessage
		Regrets  []map[string]any
	}
	require.NoError(t, json.Unmarshal(raw, &got))
	require.NotEmpty(t, got.Verdicts, "the answer is as it was, and more")
	require.Equal(t, 0.25, got.Regrets[0]["moved"])
	require.Equal(t, 0.1, got.Regrets[0]["unknown"])
	require.Equal(t, map[string]any{"scope": "link b", "regret": nil, "moved": nil, "unknown": 1.0, "reason": "no pair is known"}, got.Regrets[1])
	require.Equal(t, "direct", answer.data.Truths[0].Methods[3].Name)
}
