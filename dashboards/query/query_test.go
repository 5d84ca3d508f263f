package query

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

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

// fill puts in rows of which each answer can be worked out by hand.
func fill(t *testing.T, conn driver.Conn) {
	exec(t, conn,
		// Two generations of one minute: only the second counts. Link busy: 100
		// fetches of benefit -0.4 (half of them -0.5, half -0.3).
		`INSERT INTO slices (minute, policy, model, path, tier, link, size_bucket, gen, n, hurt, unknown, sum_benefit, sum_benefit2, n_ttft, sum_ttft, n_stages, sum_ttft_stages, sum_gpu_queue, sum_exposed_stall, sum_restore, sum_prefill, sum_remainder, ttft_hist)
		SELECT toDateTime('2026-12-01 09:01:00', 'UTC'), 'a', 'm', 'fetch', 'cpu', 'moved', 2, 7, 999, 999, 0, -999, 999, 999, 999, 999, 999, 0, 0, 0, 0, 999, arrayResize([toUInt32(9)], 129)`,
		`INSERT INTO slices (minute, policy, model, path, tier, link, size_bucket, gen, n, hurt, unknown, sum_benefit, sum_benefit2, n_ttft, sum_ttft, n_stages, sum_ttft_stages, sum_gpu_queue, sum_exposed_stall, sum_restore, sum_prefill, sum_remainder, orphans, conflicts, ttft_hist)
		SELECT toDateTime('2026-12-01 09:01:00', 'UTC'), 'a', 'm', 'fetch', 'cpu', 'busy', 2, 8, 110, 100, 10, -40, 17, 110, 88, 100, 80, 5, 70, 1, 5, -1, 3, 2, arrayResize([toUInt32(0), 110], 129)`,
		`INSERT INTO slices (minute, policy, model, path, tier, link, size_bucket, gen, n, unknown, n_ttft, sum_ttft, ttft_hist)
		SELECT toDateTime('2026-12-01 09:02:00', 'UTC'), 'b', 'm', 'recompute', '', '', -1, 1, 50, 50, 50, 20, arrayResize(arrayConcat(arrayResize([toUInt32(0)], 80), [toUInt32(50)]), 129)`,
		// Six blocks of ten fetches each, φ sums of -4 ± 0.2, 5 replays a block.
		`INSERT INTO estimates (block, block_seconds, pair_from, pair_to, estimator, policy, model, tier, link, size_bucket, n, legs, planned, sum_phi, computed)
		SELECT toDateTime('2026-12-01 09:01:00', 'UTC') + number * 5, 5, 'fetch', 'recompute', 'aipw', 'a', 'm', 'cpu', 'busy', 2, 10, 5, 6, if(number % 2 = 0, -4.2, -3.8), now64(3) FROM numbers(6)`,
		`INSERT INTO estimates (block, block_seconds, pair_from, pair_to, estimator, link, size_bucket, n, planned, reason, computed)
		VALUES ('2026-12-01 09:01:00', 5, 'recompute', 'fetch', 'aipw', '', 4, 50, 3, 'no control support', now64(3))`,
		verdicts,
	)
	exec(t, conn, requests...)
}

const verdicts = `INSERT INTO verdicts (at, window_from, window_until, target, link, policy, pair_from, pair_to, estimator, verdict, estimate, lo, hi, level, n, legs, ess, max_weight, pareto_k, reason) VALUES
('2026-12-01 09:05:00', '2026-12-01 09:00:00', '2026-12-01 09:05:00', 'window', 'busy', '', 'fetch', 'recompute', 'aipw', 'helps', 1, 0.5, 1.5, 0.95, 5, 5, 5, 0.1, 0.2, 'an older word'),
('2026-12-01 09:06:00', '2026-12-01 09:00:00', '2026-12-01 09:06:00', 'window', 'busy', '', 'fetch', 'recompute', 'aipw', 'hurts', -0.4, -0.5, -0.3, 0.95, 60, 30, 25, 0.1, 0.2, ''),
('2026-12-01 09:06:00', '2026-12-01 09:00:00', '2026-12-01 09:06:00', 'window', 'busy', '', 'fetch', 'recompute', 'naive', 'unknown', -0.1, NULL, NULL, 0.95, 60, 30, 25, 0.1, NULL, ''),
('2026-12-01 09:06:00', '2026-12-01 09:00:00', '2026-12-01 09:06:00', 'next', 'busy', '', 'fetch', 'recompute', 'aipw', 'helps', 9, 8, 10, 0.95, 60, 30, 25, 0.1, 0.2, ''),
('2026-12-01 09:06:00', '2026-12-01 09:00:00', '2026-12-01 09:06:00', 'window', 'busy', 'a', 'fetch', 'recompute', 'aipw', 'helps', 9, 8, 10, 0.95, 60, 30, 25, 0.1, 0.2, 'of a slice'),
('2026-12-01 09:06:00', '2026-12-01 09:00:00', '2026-12-01 09:06:00', 'window', '', '', 'recompute', 'fetch', 'aipw', 'unknown', NULL, NULL, NULL, 0.95, 50, 0, 0, 0, NULL, 'no control support'),
('2026-12-01 08:00:00', '2026-12-01 07:00:00', '2026-12-01 08:00:00', 'window', 'calm', '', 'fetch', 'recompute', 'aipw', 'helps', 1, 0.5, 1.5, 0.95, 5, 5, 5, 0.1, 0.2, 'another window')`

var requests = []string{
	// One fetch whose two parts came apart: its externality was 0.05, that of its
	// alternative 0.02, and the alternative is its second candidate.
	"INSERT INTO requests (minute, id, trace, kind, start, policy, model, path, tier, link, tokens_prefix, ttft, gpu_queue, exposed_stall, restore, prefill, alt_path, alt_ttft, alt_externality, externality, " +
		"`candidate.path`, `candidate.gpu_queue`, `candidate.transfer_queue`, `candidate.bandwidth`, `candidate.bytes`, `candidate.restore`, `candidate.recompute`, `candidate.ttft`) VALUES " +
		"('2026-12-01 09:01:00', unhex('000102030405060708090a0b0c0d0e0f'), unhex('4bf92f3577b34da6a3ce929d0e0e4736'), 'contract', '2026-12-01 09:01:07.5', 'a', 'm', 'fetch', 'cpu', 'busy', 4000, 1.5, 0.25, 1, 0.125, 0.125, 'fetch', 0.75, 0.02, 0.05, " +
		"['fetch', 'fetch'], [0.1, 0.125], [nan, 0.25], [1e9, 1e9], [1000000000, 500000000], [0, 0.0625], [0, 0.0625], [2, 0.75])",
	"INSERT INTO requests (minute, id, tokens_prefix) VALUES ('2026-12-01 09:01:00', unhex('000102030405060708090a0b0c0d0e0f'), 4000)",
	"INSERT INTO requests (minute, id, path, link, alt_path, alt_ttft, alt_externality, externality) VALUES ('2026-12-01 09:01:00', unhex('ff0102030405060708090a0b0c0d0e0f'), 'fetch', 'busy', 'recompute', 1, 0.02, 0.05)",
	"INSERT INTO worst (minute, rank, gen, id, trace, start, policy, path, link, ttft, alt_path, alt_ttft, benefit, shrunk) VALUES " +
		"('2026-12-01 09:01:00', 1, 7, unhex('00000000000000000000000000000000'), unhex('00000000000000000000000000000000'), '2026-12-01 09:01:07.5', 'a', 'fetch', 'moved', 9, 'recompute', 1, -8, -8)," +
		"('2026-12-01 09:01:00', 2, 8, unhex('000102030405060708090a0b0c0d0e0f'), unhex('4bf92f3577b34da6a3ce929d0e0e4736'), '2026-12-01 09:01:07.5', 'a', 'fetch', 'busy', 1.5, 'fetch', 0.75, -0.75, -0.5)," +
		"('2026-12-01 09:01:00', 3, 8, unhex('010102030405060708090a0b0c0d0e0f'), unhex('4bf92f3577b34da6a3ce929d0e0e4736'), '2026-12-01 09:01:07.5', 'a', 'fetch', 'busy', 1.5, 'recompute', 2, 0.5, 0.25)",
	"INSERT INTO replays (start, trace, span, id, leg, path, tokens_prefix) VALUES " +
		"('2026-12-01 09:01:30', unhex('01'), 1, unhex('000102030405060708090a0b0c0d0e0f'), 'rejected', 'recompute', 4000)," +
		"('2026-12-01 09:01:30', unhex('01'), 1, unhex('000102030405060708090a0b0c0d0e0f'), 'rejected', 'recompute', 4000)," +
		"('2026-12-01 09:01:31', unhex('01'), 2, unhex('000102030405060708090a0b0c0d0e0f'), 'control', 'fetch', 4000)," +
		"('2026-12-01 09:01:31', unhex('01'), 3, unhex('eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee'), 'control', 'fetch', 4000)",
	"INSERT INTO waiting (day, trace, span, arrived, version, done) VALUES ('2026-12-01', unhex('01'), 1, '2026-12-01 09:02:00', 1, 0), ('2026-12-01', unhex('01'), 2, '2026-12-01 09:02:00', 1, 0), ('2026-12-01', unhex('01'), 2, '2026-12-01 09:02:00', 2, 1)",
	`INSERT INTO coefficients (revision, created, payload, note) VALUES (1, now64(9), '{"revision":1}', ''), (2, now64(9), '{"revision":2,"previous":1,"prefill":[{"model":"m","gpu":"g","law":{"c0":0.5},"quality":{"n":9,"form":"c0","covariance":[0.04]}}]}', 'better on every slice')`,
}

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
