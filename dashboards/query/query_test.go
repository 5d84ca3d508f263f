package query

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/query/querytest"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

var (
	start  = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	window = Window{From: start, Until: start.Add(10 * time.Minute)}
)

// tables are a database with its tables.
func tables(t *testing.T) driver.Conn {
	t.Helper()
	conn := clickhousetest.Open(t)
	_, err := migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	return conn
}

func exec(t *testing.T, conn driver.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		require.NoError(t, conn.Exec(context.Background(), sql), sql)
	}
}

func fill(t *testing.T, conn driver.Conn) { querytest.Fill(t, conn) }

func TestEmptyTables(t *testing.T) {
	conn := tables(t)
	d, err := Data(t.Context(), conn, window)
	require.NoError(t, err)
	require.Empty(t, d.Verdicts)
	require.Empty(t, d.Benefits)
	require.Empty(t, d.Stages)
	require.Empty(t, d.Worst)
	require.Zero(t, d.Coverage.Requests)
	require.Contains(t, d.Calibration.Note, "No document was ever published")
}

func TestData(t *testing.T) { migratetest.Each(t, data) }

func data(t *testing.T, conn *clickhouse.Conn) {
	fill(t, conn)
	d, err := Data(t.Context(), conn, window)
	require.NoError(t, err)
	require.NoError(t, report.Render(io.Discard, d))
	t.Run("verdicts", func(t *testing.T) { checkVerdicts(t, d.Verdicts) })
	t.Run("benefit", func(t *testing.T) { checkBenefit(t, d.Benefits) })
	t.Run("stages", func(t *testing.T) {
		require.Equal(t, []report.Stages{{Path: "fetch", Link: "busy", Requests: 100, GPUQueue: 0.05, ExposedStall: 0.7, Restore: 0.01, Prefill: 0.05, Remainder: -0.01, TTFT: 0.8}}, d.Stages)
	})
	t.Run("estimates", func(t *testing.T) {
		require.Len(t, d.Truths, 2)
		busy := d.Truths[1]
		require.Equal(t, "busy", busy.Link)
		require.Equal(t, []string{"AIPW", "naive"}, []string{busy.Methods[0].Name, busy.Methods[1].Name})
		require.False(t, busy.Methods[1].Estimate.HasInterval())
		require.Equal(t, -0.1, busy.Methods[1].Estimate.Value)
		require.Nil(t, d.Truths[0].Methods[0].Estimate)
	})
	t.Run("worst", func(t *testing.T) { checkWorst(t, d.Worst) })
	t.Run("coverage", func(t *testing.T) { checkCoverage(t, d.Coverage) })
	t.Run("policies", func(t *testing.T) {
		require.Len(t, d.Arms, 2)
		require.Equal(t, report.Num(0.8), d.Arms[0].Mean)
		require.InEpsilon(t, 0.001, d.Arms[0].P50.V, 0.1)
		require.InEpsilon(t, 1.024, d.Arms[1].P99.V, 0.05, "bucket 81 ends at 0.001·2^10 s")
		require.Nil(t, d.Arms[1].Gain)
	})
	t.Run("calibration", func(t *testing.T) {
		require.Equal(t, int64(2), d.Calibration.Revision)
		require.Equal(t, report.Num(0.2), d.Calibration.Terms[0].Values[0].StandardError)
		require.Equal(t, []string{"better on every slice"}, d.Calibration.Reasons)
	})
}

func checkVerdicts(t *testing.T, all []report.Verdict) {
	require.Len(t, all, 2)
	v := all[0]
	require.Equal(t, report.Hurting, v.Shown())
	require.Equal(t, "busy", v.Link)
	require.Equal(t, &report.Interval{Value: -0.4, Low: -0.5, High: -0.3, Level: 0.95, N: 30}, v.Own)
	require.InDelta(t, -0.03, v.Others.Value, 1e-6)
	require.Equal(t, int64(1), v.Others.N, "only requests of the same pair")
	require.InDelta(t, -0.43, v.Net.Value, 1e-6)
	require.Equal(t, report.Unknown, all[1].Shown())
	require.Equal(t, "no control support", all[1].Why())
}

func checkBenefit(t *testing.T, all []report.Benefit) {
	by := map[string]report.Benefit{}
	for _, b := range all {
		by[b.By+" "+b.Name] = b
	}
	require.NotContains(t, by, "link moved", "an old generation counts")
	require.Len(t, all, 6)
	for _, name := range []string{"path fetch", "link busy", "tier cpu", "size 2,049–8,192", "policy a"} {
		b := by[name]
		require.Equal(t, []int64{110, 100, 10}, []int64{b.Requests, b.Hurt, b.Unknown}, name)
		require.InDelta(t, -0.4, b.Predicted.Value, 1e-9, name)
		require.InDelta(t, 0.1/0.994987*1.984217/10, b.Predicted.High-b.Predicted.Value, 1e-4, name) // sd 0.1, n 100
		require.NotNil(t, b.Measured, name)
		require.InDelta(t, -0.4, b.Measured.Value, 1e-9, name)
		require.Equal(t, int64(30), b.Measured.N)
		// Σd² = 6·0.04, /60², ·6/5; t with 5 degrees of freedom is 2.570582.
		require.InDelta(t, 2.570582*0.0089443, b.Measured.High-b.Measured.Value, 1e-6, name)
		require.InDelta(t, 1-60.0/110, b.Unmeasured.V, 1e-9, name)
	}
	require.Nil(t, by["path recompute"].Measured)
	require.Nil(t, by["path recompute"].Predicted)
	require.Equal(t, "no control support", by["path recompute"].Reason)
}

func checkWorst(t *testing.T, all []report.Decision) {
	require.Len(t, all, 1, "another generation, and a decision that was right, are none")
	d := all[0]
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", d.Trace)
	require.Equal(t, report.Num(0.5), d.Regret)
	require.Equal(t, report.Timeline{GPUQueue: report.Num(0.25), ExposedStall: report.Num(1), Restore: report.Num(0.125), Prefill: report.Num(0.125), TTFT: report.Num(1.5)}, d.Taken)
	// The second candidate: 0.25 + 0.5 s of transfer, of which 0.125 s are hidden.
	require.Equal(t, report.Timeline{GPUQueue: report.Num(0.125), ExposedStall: report.Num(0.625), Restore: report.Num(0.0625), Prefill: report.Num(0.0625), TTFT: report.Num(0.75)}, d.NotTaken)
}

func checkCoverage(t *testing.T, c report.Coverage) {
	require.Equal(t, []int64{160, 160, 100, 3, 2, 1}, []int64{c.Requests, c.WithDecision, c.Predicted, c.Orphans, c.Conflicts, c.Waiting})
	require.Equal(t, []report.Legs{
		{Size: "2,049–8,192", Leg: "rejected", Intended: report.Num(36), Executed: 1},
		{Size: "2,049–8,192", Leg: "control", Executed: 1},
		{Size: ">32,768", Leg: "rejected", Intended: report.Num(3)},
	}, c.Legs)
	require.Equal(t, int64(39), c.Sampled)
	require.Len(t, c.Support, 2)
	require.Equal(t, []report.Count{{Reason: "estimate refused: no control support", N: 1}}, c.Refusals)
}

// TestVerdictsByPolicy holds that verdicts of single policies are shown where
// none is of all of them.
func TestVerdictsByPolicy(t *testing.T) {
	conn := tables(t)
	exec(t, conn, `INSERT INTO verdicts (at, window_from, window_until, target, link, policy, pair_from, pair_to, estimator, verdict, estimate, lo, hi, level, n, legs) VALUES
('2026-12-01 09:06:00', '2026-12-01 09:00:00', '2026-12-01 09:06:00', 'window', 'busy', 'a', 'fetch', 'recompute', 'aipw', 'helps', 0.4, 0.3, 0.5, 0.9, 60, 30),
('2026-12-01 09:06:00', '2026-12-01 09:00:00', '2026-12-01 09:06:00', 'window', 'busy', 'b', 'fetch', 'recompute', 'aipw', 'hurts', -0.4, -0.5, -0.3, 0.9, 60, 30)`)
	all, err := Verdicts(t.Context(), conn, window)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "b", all[0].Policy, "what hurts comes first")
	require.Nil(t, all[0].Others, "no request says anything of others")
	estimates, err := Estimates(t.Context(), conn, window)
	require.NoError(t, err)
	require.Len(t, estimates, 2)
}

func TestErrorsSayWhatWasAsked(t *testing.T) {
	conn := clickhousetest.Open(t) // no tables
	_, err := Data(t.Context(), conn, window)
	require.ErrorContains(t, err, "report: read verdicts")
	exec(t, conn, "CREATE TABLE coefficients (revision UInt64, created DateTime64(9), payload String, signature String, note String) ENGINE = ReplacingMergeTree ORDER BY (revision, created)",
		"INSERT INTO coefficients VALUES (1, now64(9), 'no JSON', '', '')")
	_, err = Calibration(t.Context(), conn)
	require.ErrorContains(t, err, "cannot be read")
}

func TestWindowIsWholeMinutes(t *testing.T) {
	w := Window{From: start.Add(59 * time.Second), Until: start.Add(61 * time.Second)}
	from, until := w.bounds()
	require.Equal(t, "'2026-12-01 09:00:00'", from)
	require.Equal(t, "'2026-12-01 09:02:00'", until)
}
