//go:build nightly

package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama/llamatest"
)

// TestDemoOnLlama runs the whole loop on real engines, with too few requests for a
// verdict: every request is stored once, legs ran, and what is not known says why.
func TestDemoOnLlama(t *testing.T) {
	requireEngine(t)
	llamatest.Binary(t)
	var answer struct {
		demoAnswer
		Ladder []struct {
			Tokens   int
			Prefill  float64 `json:"prefill_seconds"`
			Restore  float64 `json:"restore_seconds"`
			Crossing float64 `json:"crossing_bytes_per_second"`
		} `json:"ladder"`
		Replays struct{ Drawn, Executed int } `json:"replays"`
	}
	out := done(t, "demo", "--engine", "llama.cpp", "--requests", "40", "--dir", t.TempDir(), "--output", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.EqualValues(t, 40, *answer.Coverage.Accepted)
	require.Zero(t, *answer.Coverage.Lost)
	require.Zero(t, *answer.Coverage.Doubled)
	require.Len(t, answer.Ladder, 4)
	for i, r := range answer.Ladder {
		require.Positive(t, r.Crossing, "restoring is faster than computing")
		if i > 0 {
			require.Greater(t, r.Prefill, answer.Ladder[i-1].Prefill, "twice the tokens take longer")
		}
	}
	require.Positive(t, answer.Replays.Executed)
	require.LessOrEqual(t, answer.Replays.Executed, answer.Replays.Drawn)
	require.NotEmpty(t, answer.Verdicts)
	for _, v := range answer.Verdicts {
		require.True(t, v.State != "unknown" || v.Reason != "", "unknown without a reason")
	}
	checkPage(t, answer.Report)
}
