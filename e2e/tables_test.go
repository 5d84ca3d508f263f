package e2e

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// tables is a connection that may only select.
type tables struct {
	t    *testing.T
	conn *clickhouse.Conn
}

func openTables(t *testing.T, dsn string) *tables {
	t.Helper()
	conn, err := clickhouse.Open(context.Background(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &tables{t, conn}
}

// number gives a query's one number.
func (d *tables) number(query string) float64 {
	d.t.Helper()
	n, err := d.ask(query)
	require.NoError(d.t, err, query)
	return n
}

func (d *tables) ask(query string) (n float64, err error) {
	err = d.conn.QueryRow(d.t.Context(), "SELECT toFloat64(("+query+"))").Scan(&n)
	return n, err
}

// eventually waits until a query gives n. Other errors than a wrong answer are
// waited out as well: the database may be restarting.
func (d *tables) eventually(n int, query string) {
	d.t.Helper()
	eventually(d.t, func() error {
		got, err := d.ask(query)
		if err == nil && got != float64(n) {
			err = fmt.Errorf("%v, not %d: %s", got, n, query)
		}
		return err
	})
}

// lines gives each row as text, in the order of the query.
func (d *tables) lines(query string) []string {
	d.t.Helper()
	rows, err := d.conn.Query(d.t.Context(), "SELECT toString(tuple(*)) FROM ("+query+")")
	require.NoError(d.t, err, query)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var line string
		require.NoError(d.t, rows.Scan(&line))
		out = append(out, line)
	}
	require.NoError(d.t, rows.Err())
	return out
}

// sums are columns of slices, each with what it is of requests.
var sums = []struct{ column, of string }{
	{"n", "countIf(kind != 'orphan')"},
	{"unknown", "countIf(kind != 'orphan' AND alt_ttft + alt_externality - ttft - externality IS NULL)"},
	{"hurt", "countIf(alt_ttft + alt_externality - ttft - externality < 0)"},
	{"sum_benefit", "sum(toFloat64(ifNull(alt_ttft + alt_externality - ttft - externality, 0)))"},
	{"n_ttft", "count(ttft)"},
	{"sum_ttft", "sum(toFloat64(ifNull(ttft, 0)))"},
	{"n_stages", "count(remainder)"},
	{"sum_gpu_queue", "sumIf(toFloat64(ifNull(gpu_queue, 0)), remainder IS NOT NULL)"},
	{"sum_exposed_stall", "sumIf(toFloat64(ifNull(exposed_stall, 0)), remainder IS NOT NULL)"},
	{"sum_restore", "sumIf(toFloat64(ifNull(restore, 0)), remainder IS NOT NULL)"},
	{"sum_prefill", "sumIf(toFloat64(ifNull(prefill, 0)), remainder IS NOT NULL)"},
	{"sum_remainder", "sum(toFloat64(ifNull(remainder, 0)))"},
	{"sum_bytes", "sum(toFloat64(ifNull(bytes, 0)))"},
	{"sum_tokens_reused", "sum(toFloat64(ifNull(tokens_reused, 0)))"},
	{"arraySum(ttft_hist)", "count(ttft)"},
}

// columns gives the sums of both sides by minute, policy, path and link.
func (d *tables) columns(slices bool) (map[string][]float64, error) {
	const from = "slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00')"
	var exprs []string
	for _, s := range sums {
		if slices {
			exprs = append(exprs, "toFloat64(sum("+s.column+"))")
		} else {
			exprs = append(exprs, "toFloat64("+s.of+")")
		}
	}
	source := "requests FINAL"
	if slices {
		source = from
	}
	rows, err := d.conn.Query(d.t.Context(), fmt.Sprintf(
		"SELECT toString(tuple(minute, policy, path, link)) AS key, [%s] FROM %s GROUP BY minute, policy, path, link",
		strings.Join(exprs, ", "), source))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string][]float64{}
	for rows.Next() {
		var key string
		var values []float64
		if err := rows.Scan(&key, &values); err != nil {
			return nil, err
		}
		out[key] = values
	}
	return out, rows.Err()
}

// slicesEqualARecount waits until the rollups are what requests say.
func (d *tables) slicesEqualARecount() {
	d.t.Helper()
	eventually(d.t, d.difference)
}

func (d *tables) difference() error {
	want, err := d.columns(false)
	if err != nil {
		return err
	}
	got, err := d.columns(true)
	if err != nil {
		return err
	}
	if len(want) != len(got) || len(want) == 0 {
		return fmt.Errorf("slices have %d groups, not %d", len(got), len(want))
	}
	for key, values := range want {
		for i, v := range values {
			if g := got[key]; len(g) != len(values) || math.Abs(g[i]-v) > 1e-9*math.Max(1, math.Abs(v)) {
				return fmt.Errorf("slices: %s of %s: %v, not %v", sums[i].column, key, g, v)
			}
		}
	}
	return nil
}

// checkOnce wants each of the requests below n once, with its one span, and the
// rollups of that.
func checkOnce(t *testing.T, d *tables, n int) {
	t.Helper()
	d.eventually(n, "SELECT count() FROM requests FINAL")
	require.EqualValues(t, n, d.number("SELECT uniqExact(request_id) FROM requests FINAL WHERE length(spans) = 1 AND length(contents) = 1"))
	d.eventually((n+1)/2, "SELECT count() FROM transfers FINAL") // inserted after the requests
	d.slicesEqualARecount()
	require.EqualValues(t, n, d.number("SELECT sum(n) FROM slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00')"))
}
