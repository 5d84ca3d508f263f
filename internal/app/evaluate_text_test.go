package app

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/replay/evaluate"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestEvaluationText holds what people read, of answers that are known and not.
func TestEvaluationText(t *testing.T) {
	e := &Evaluation{
		Policy: "spare-large", Kind: "threshold", Scope: "link rack", From: evaluateStart, Until: evaluateStart.Add(time.Hour), Requests: 4000, Undecided: 3,
		Feedback: feedbackOf(evaluate.Feedback{Links: []evaluate.LinkChange{{Link: "rack", Capacity: 1e9, Logged: 5e8, Policy: 3e8, Change: -0.2}}, GPUChange: 0.02, Limit: 0.05, Carries: true, Why: "the policy changes the load of link rack by -20.0 %"}),
		Notes:    []string{"a note"},
	}
	known := EvaluatedBy{
		Method: MethodSimulation, Known: true, State: StateFaster, N: 4000, Runs: 5, Logged: bounded(0.4, 0.39, 0.41), Value: bounded(0.3, 0.29, 0.31), Change: bounded(-0.1, -0.12, -0.08), Level: 0.95,
		LinkLogged: report.Num(0.5), LinkPolicy: report.Num(0.3), GPULogged: report.Num(0.4), GPUPolicy: report.Num(0.42), Assumptions: []string{"laws of coefficients revision 3"},
	}
	replays := EvaluatedBy{
		Method: MethodReplays, Known: true, State: StateFaster, N: 3990, Unknown: 10, Moved: 200, Replays: 60, Blocks: 60, Logged: bounded(0.4, 0.4, 0.4), Value: bounded(0.36, 0.35, 0.37), Change: bounded(-0.04, -0.05, -0.03),
		Next: bounded(-0.04, -0.06, -0.02), ESS: report.Num(55), MaxWeight: report.Num(0.03), Level: 0.95,
	}
	e.Methods = []EvaluatedBy{replays, refusedBy(MethodExploration, "no decision was left to chance"), known}
	e.Slices = []EvaluatedSlice{{By: "size", Value: "≤512", EvaluatedBy: replays}, {By: "link", Value: "", EvaluatedBy: refusedBy(MethodReplays, "3 legs, 20 needed")}}
	e.answer()
	golden(t, "evaluation.txt", e.Text())
	raw, err := json.MarshalIndent(e, "", "  ")
	require.NoError(t, err)
	golden(t, "evaluation.json", string(raw)+"\n")
	e.Methods[2] = refusedBy(MethodSimulation, "no coefficients are published")
	e.answer()
	golden(t, "evaluation_unknown.txt", e.Text())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
