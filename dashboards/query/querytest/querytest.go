// Package querytest gives tests of whatever reads the tables the rows that the
// answers of package query are known of: ten minutes from Start on.
package querytest

import (
	"context"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Start is where the rows begin; all are within ten minutes.
var Start = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

func exec(t testing.TB, conn driver.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
}

// Fill puts in rows of which each answer can be worked out by hand.
func Fill(t testing.TB, conn driver.Conn) {
	t.Helper()
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
