package app

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/gate"
	"github.com/kvwhatif/kvwhatif/schema"
)

func TestDriftIsToldEverywhere(t *testing.T) {
	c := &Calibrated{Champion: &schema.Document{Revision: 7}, Reason: "kept", Drift: []gate.Drifted{
		{Path: "fetch", Link: "it", DriftFound: gate.DriftFound{Found: true, N: 900}, SinceNanos: 1_700_000_000e9, Shift: 0.25},
		{Path: "recompute", DriftFound: gate.DriftFound{N: 300}, Shift: math.NaN()},
	}}
	require.Contains(t, c.Text(), "Drift of revision 7: fetch over it takes +25 % against what it predicts, since about 2023-11-14T22:13:20Z.\n")
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"drift":[{"path":"fetch","link":"it","found":true,"n":900,"since":"2023-11-14T22:13:20Z","shift":0.25},`+
		`{"path":"recompute","link":"","found":false,"n":300,"since":null,"shift":null}]`)
	m := NewCalibrateMetrics()
	m.Note(c)
	require.InDelta(t, 1, testutil.ToFloat64(m.drift.WithLabelValues("fetch", "it")), 0)
	require.InDelta(t, 0, testutil.ToFloat64(m.drift.WithLabelValues("recompute", "(none)")), 0)
	m.Note(&Calibrated{})
	require.Zero(t, testutil.CollectAndCount(m), "unknown is not well")
}
