//go:build nightly

package grafana

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

// What a panel may take at ten million requests a day, and the page of one request.
const (
	panelTarget   = 200 * time.Millisecond
	requestTarget = 50 * time.Millisecond
	asked         = 15 // times each
)

// TestTenMillionRequests prints what each panel takes over a day of ten million
// requests, of which a tenth came twice and a tenth had a late part, in parts that
// were never merged. It asserts no time, for machines differ: make dashboards-bench.
//
// KVWHATIF_P7_REQUESTS is another number of requests; KVWHATIF_P7_DIR keeps the rows.
func TestTenMillionRequests(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("KVWHATIF_P7_REQUESTS"))
	if err != nil {
		n = 10_000_000
	}
	dir := os.Getenv("KVWHATIF_P7_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	clickhousetest.RequireEngine(t)
	engine, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{Dir: dir})
	require.NoError(t, err)
	defer engine.Stop(t.Context())
	s := serverAt(t, engine.DSN())
	e := expansion{from: day, until: day.Add(24 * time.Hour), step: 120}
	done := filepath.Join(dir, "filled")
	if _, err := os.Stat(done); err != nil {
		generate(t, engine.DSN(), s, n)
		require.NoError(t, os.WriteFile(done, nil, 0o600))
	}
	s.ask(t, "SYSTEM STOP MERGES", nil)
	if os.Getenv("KVWHATIF_P7_FILL") != "" {
		return
	}
	e.request = s.rows(t, fmt.Sprintf("SELECT lower(hex(trace)) FROM requests WHERE minute = toDateTime(%d) LIMIT 1", day.Add(12*time.Hour).Unix())).Data[0][0].(string)
	report(t, s, e)
}

// day is the day of the rows: yesterday, or the tables let them expire.
var day = time.Now().UTC().Truncate(24 * time.Hour).Add(-24 * time.Hour)

func report(t *testing.T, s server, e expansion) {
	t.Helper()
	fmt.Println(string(s.ask(t, "SELECT table, formatReadableQuantity(sum(p.rows)) AS kept, formatReadableSize(sum(bytes_on_disk)) AS size, count() AS parts FROM system.parts AS p WHERE active AND database = currentDatabase() GROUP BY table ORDER BY sum(p.rows) DESC FORMAT PrettySpaceMonoBlock", nil)))
	fmt.Printf("%-22s %3s %8s %8s  %s\n", "dashboard", "id", "p50 ms", "p95 ms", "panel")
	for _, d := range Dashboards() {
		for _, p := range d.Panels {
			if p.SQL == "" {
				continue
			}
			sql := e.expand(macros.Replace(p.SQL))
			var took []time.Duration
			for range asked {
				began := time.Now()
				s.ask(t, sql+" FORMAT JSONCompact", nil)
				took = append(took, time.Since(began))
			}
			sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
			p50, p95 := took[len(took)/2], took[len(took)*95/100]
			target, mark := panelTarget, ""
			if d.Request {
				target = requestTarget
			}
			if p95 > target {
				mark = "  over " + target.String()
			}
			fmt.Printf("%-22s %3d %8.1f %8.1f  %s%s\n", d.UID, p.ID, ms(p50), ms(p95), p.Title, mark)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// generate makes the rows on the server: contract parts in the order of time, then
// duplicates and late parts, and rollups by the statements of collector/load, before
// and after the late parts.
func generate(t *testing.T, dsn string, s server, n int) {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close()
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	s.ask(t, "SYSTEM STOP MERGES", nil)
	const block = 250_000
	for first := 0; first < n; first += block {
		s.ask(t, fmt.Sprintf(contractRows, n, day.Unix(), first, min(block, n-first)), nil)
	}
	remake(t, s, 1)
	for first := 0; first < n; first += 10 * block {
		s.ask(t, fmt.Sprintf("INSERT INTO requests SELECT * FROM requests WHERE minute >= toDateTime(%[1]d) AND minute < toDateTime(%[2]d) AND cityHash64(id) %% 10 = 0 SETTINGS optimize_on_insert = 0", minuteOf(first, n), minuteOf(first+10*block, n)), nil)
		s.ask(t, fmt.Sprintf("INSERT INTO requests (minute, id, trace, spans, engine_service, engine_start, engine_ttft) SELECT minute, id, trace, [toUInt64(cityHash64(id))], 'engine', start, ttft FROM requests WHERE minute >= toDateTime(%[1]d) AND minute < toDateTime(%[2]d) AND cityHash64(id) %% 10 = 1 AND kind = 'contract' SETTINGS optimize_on_insert = 0", minuteOf(first, n), minuteOf(first+10*block, n)), nil)
	}
	remake(t, s, 2)
	for _, sql := range otherRows {
		s.ask(t, strings.ReplaceAll(sql, "{day}", fmt.Sprint(day.Unix())), nil)
	}
}

// minuteOf is the start of the minute of request i of n.
func minuteOf(i, n int) int64 { return day.Unix() + int64(float64(min(i, n))/float64(n)*86400)/60*60 }

// remake makes the rollups of every kth minute again.
func remake(t *testing.T, s server, k int) {
	t.Helper()
	for _, file := range []string{"recompute_slices.sql", "recompute_worst.sql"} {
		raw, err := os.ReadFile(filepath.Join("../../collector/load", file))
		require.NoError(t, err)
		sql := string(raw)
		for strings.HasPrefix(sql, "--") {
			_, sql, _ = strings.Cut(sql, "\n")
		}
		for hour := range 48 {
			var list []string
			for m := 0; m < 30; m += k {
				list = append(list, fmt.Sprint(day.Unix()+int64(hour*30+m)*60))
			}
			args := []any{0, strings.Join(list, ",")}
			if strings.Contains(file, "worst") {
				args = append(args, 20)
			}
			s.ask(t, fmt.Sprintf(sql, args...)+" SETTINGS do_not_merge_across_partitions_select_final = 1", nil)
		}
	}
}

// contractRows makes requests %[3]d to %[3]d+%[4]d of %[1]d, over the day from
// second %[2]d on: three policies, two models, four paths, eight links, 64 workers.
const contractRows = `INSERT INTO requests (minute, id, trace, spans, contents, kind, start, service, adapter, policy, revision, request_id, path, chosen, model, gpu, worker, tier, link,
 tokens_prompt, tokens_prefix, tokens_reused, link_flows, state_age, bytes, gpu_queue, transfer_queue, transfer, exposed_stall, restore, prefill, ttft, remainder,
 candidate.path, candidate.worker, candidate.source, candidate.tier, candidate.links, candidate.tokens_resident, candidate.tokens_fetched, candidate.tokens_computed, candidate.bytes, candidate.gpu_queue, candidate.transfer_queue, candidate.bandwidth, candidate.restore, candidate.recompute, candidate.ttft, candidate.externality, candidate.propensity,
 alt_path, alt_ttft, alt_externality, externality)
WITH cityHash64(number) AS h, toUInt8(h %% 4) AS way, bitShiftRight(h, 8) %% 1000 / 1000 AS u, bitShiftRight(h, 20) %% 1000 / 1000 AS v, toUInt32(200 * exp(5.5 * v)) AS prefix,
 toFloat32(0.05 * u) AS queue, toFloat32(if(way = 0, prefix * 2e-6 * (1 + u), 0)) AS wire, toFloat32(greatest(0, wire - queue)) AS stall, toFloat32(if(way = 1, prefix * 5e-6, 0.02)) AS fill, toFloat32(queue + stall + fill) AS total, toFloat32(queue + prefix * 5e-6 * (0.5 + u)) AS other,
 %[2]d + number / %[1]d * 86400 AS seconds, concat('worker-', toString(bitShiftRight(h, 30) %% 64)) AS w, concat('link-', toString(bitShiftRight(h, 40) %% 8)) AS l
SELECT toDateTime(intDiv(toUInt64(seconds), 60) * 60), sipHash128(number, 1), sipHash128(number, 2), [h], [toUInt32(h)], 'contract',
 toDateTime64(toDecimal64(seconds, 3), 9, 'UTC'), 'router', 'kvreuse', concat('policy-', toString(intDiv(h, 7) %% 3)), 3, concat('request-', toString(number)), way + 1, 0, concat('model-', toString(intDiv(h, 11) %% 2)), 'gpu', w, if(way = 0, 5, 0), if(way = 0, l, ''),
 prefix + 500, prefix, if(way = 1, 0, prefix), bitShiftRight(h, 44) %% 5, 0.1, if(way = 0, prefix * 147456, NULL), queue, 0, if(way = 0, wire, NULL), stall, 0, fill, total, 0,
 [way + 1, 2, 3], [w, w, 'worker-1'], ['', '', ''], [if(way = 0, 5, 0), 0, 0], [if(way = 0, l, ''), '', ''], [0, 0, 0], [toInt32(prefix), 0, 0], [500, toInt32(prefix), 500], [toInt64(prefix) * 147456, 0, 0], [queue, queue, queue], [0, 0, 0], [1e10, 1e10, 1e10], [0, 0, 0], [fill, fill, fill], [total * toFloat32(0.9 + 0.2 * v), other, other], [0.001, 0, 0], [0.9, 0.05, 0.05],
 if(way = 3, 0, if(way = 1, 1, 2)), if(way = 3, NULL, other), if(way = 3, NULL, 0), if(way = 3, NULL, 0.001)
FROM numbers(%[3]d, %[4]d) SETTINGS optimize_on_insert = 0, min_insert_block_size_rows = 250000, max_insert_threads = 1`

// otherRows are those of the rest of the tables: a replay a hundred fetches, estimates
// of blocks of a minute, verdicts of every five minutes, a transfer a fetch.
var otherRows = []string{
	"INSERT INTO transfers (start, trace, span, id, origin, tier, worker, model, link, exact, tokens, bytes, queue, duration, joined) SELECT start, trace, spans[1], id, 'contract', tier, worker, model, link, 1, tokens_prefix, bytes, 0, transfer, 1 FROM requests WHERE path = 'fetch' AND kind = 'contract'",
	"INSERT INTO replays (start, end, trace, span, id, of, path, leg, policy, model, worker, link, tokens_prefix, ttft, cost_gpu, cost_bytes, inclusion) SELECT start + 30, start + 31, trace, 1, id, trace, 'recompute', 'rejected', policy, model, worker, link, tokens_prefix, ttft, prefill, 0, 0.01 FROM requests WHERE path = 'fetch' AND kind = 'contract' AND cityHash64(id) % 100 = 7",
	"INSERT INTO estimates (block, block_seconds, pair_from, pair_to, estimator, policy, model, tier, link, size_bucket, n, legs, planned, sum_phi, computed) SELECT toDateTime({day}) + 60 * intDiv(number, 240), 60, 'fetch', 'recompute', 'aipw', concat('policy-', toString(number % 3)), concat('model-', toString(intDiv(number, 3) % 2)), 'peer', concat('link-', toString(intDiv(number, 6) % 8)), intDiv(number, 48) % 5, 7, 1, 1, rand() / 4e9, now64(3) FROM numbers(1440 * 240)",
	"INSERT INTO verdicts (at, window_from, window_until, target, link, pair_from, pair_to, estimator, verdict, estimate, lo, hi, level, n, legs, ess) SELECT toDateTime({day}) + 300 * intDiv(number, 32), toDateTime({day}) + 300 * intDiv(number, 32) - 3600, toDateTime({day}) + 300 * intDiv(number, 32), 'window', concat('link-', toString(number % 8)), 'fetch', 'recompute', ['aipw', 'ipw', 'snipw', 'naive'][intDiv(number, 8) % 4 + 1], 'helps', 0.1, 0.05, 0.15, 0.95, 1000, 50, 40 FROM numbers(288 * 32)",
}
