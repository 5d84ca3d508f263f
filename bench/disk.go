package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

const (
	diskTarget      = 70 // bytes a request on disk, and
	candidateTarget = 30 // for each of its candidates
)

// stored is what a table takes on disk.
type stored struct {
	table       string
	rows, bytes float64
}

// onDisk asks what the demo's traffic takes.
func (b *bench) onDisk(ctx context.Context) (*Table, error) {
	dir := b.demoDir
	if dir == "" {
		dir = filepath.Join(b.dir, "demo")
		b.say("P6: running the demo, some minutes")
		cmd := exec.CommandContext(ctx, b.kvwhatif, "demo", "--dir", dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("run the demo: %w: %s", err, out[max(0, len(out)-1000):])
		}
		defer os.RemoveAll(dir)
	}
	server, err := clickhouse.StartEmbedded(ctx, clickhouse.EmbeddedConfig{Dir: filepath.Join(dir, "clickhouse")})
	if err != nil {
		return nil, fmt.Errorf("start ClickHouse on the demo's directory %s: %w", dir, err)
	}
	defer server.Stop(context.WithoutCancel(ctx))
	conn, err := clickhouse.Open(ctx, server.DSN())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Late parts merge sooner or later; what is measured is what stays.
	for _, table := range []string{"requests", "transfers", "slices"} {
		if err := conn.Exec(ctx, "OPTIMIZE TABLE "+table+" FINAL"); err != nil {
			return nil, fmt.Errorf("merge %s: %w", table, err)
		}
	}
	return diskTable(ctx, conn)
}

func diskTable(ctx context.Context, conn *clickhouse.Conn) (*Table, error) {
	tables, err := sizes(ctx, conn)
	if err != nil {
		return nil, err
	}
	candidates, perRequest, err := candidateBytes(ctx, conn)
	if err != nil {
		return nil, err
	}
	t := &Table{ID: "P6", Title: "bytes on disk, the demo's traffic, merged", First: "what", Columns: []string{"rows", "bytes", "bytes a row", "bytes a request"},
		Notes: []string{
			fmt.Sprintf("%.2f candidates a request. Targets: %d bytes a request, and %d a candidate.", perRequest, diskTarget, candidateTarget),
			"A row of requests holds 40 random bytes of identifiers (row, trace, span), which no codec makes smaller.",
		}}
	requests := tables[0].rows
	for _, s := range tables {
		row := Row{Name: "table " + s.table, Values: []Number{Number(s.rows), Number(s.bytes), Number(s.bytes / s.rows), Number(s.bytes / requests)}, Ratio: none}
		if s.table == "requests" {
			row.Ratio, row.To = Number(s.bytes/requests/(diskTarget+candidateTarget*perRequest)), "target"
		}
		t.Rows = append(t.Rows, row)
	}
	whole, each := tables[0].bytes-candidates, candidates/requests/perRequest
	t.Rows = append(t.Rows,
		Row{Name: "requests without candidates", Values: []Number{none, Number(whole), none, Number(whole / requests)}, Ratio: Number(whole / requests / diskTarget), To: "target"},
		Row{Name: "each candidate", Values: []Number{none, Number(candidates), none, Number(each)}, Ratio: Number(each / candidateTarget), To: "target"})
	return t, largest(ctx, conn, t, requests)
}

// sizes are those of the tables that grow with traffic, requests first.
func sizes(ctx context.Context, conn *clickhouse.Conn) ([]stored, error) {
	const query = `SELECT table, toFloat64(sum(rows)), toFloat64(sum(bytes_on_disk)) FROM system.parts
		WHERE active AND database = currentDatabase() AND table IN ('requests', 'transfers', 'slices', 'replays') AND rows > 0
		GROUP BY table ORDER BY table = 'requests' DESC, table`
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("ask for sizes: %w", err)
	}
	defer rows.Close()
	var out []stored
	for rows.Next() {
		var s stored
		if err := rows.Scan(&s.table, &s.rows, &s.bytes); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(out) == 0 || out[0].table != "requests" {
		return nil, fmt.Errorf("the directory's database has no requests: was a demo run there?")
	}
	return out, rows.Err()
}

// candidateBytes is what the columns of candidates take, and how many candidates
// a request has.
func candidateBytes(ctx context.Context, conn *clickhouse.Conn) (bytes, perRequest float64, err error) {
	const columns = `SELECT toFloat64(sum(column_bytes_on_disk)) FROM system.parts_columns
		WHERE active AND database = currentDatabase() AND table = 'requests' AND column LIKE 'candidate.%'`
	if err := conn.QueryRow(ctx, columns).Scan(&bytes); err != nil {
		return 0, 0, fmt.Errorf("ask for the sizes of columns: %w", err)
	}
	err = conn.QueryRow(ctx, "SELECT avg(length(`candidate.path`)) FROM requests").Scan(&perRequest)
	return bytes, perRequest, err
}

// largest adds the columns that take most.
func largest(ctx context.Context, conn *clickhouse.Conn, t *Table, requests float64) error {
	rows, err := conn.Query(ctx, `SELECT column, toFloat64(sum(column_bytes_on_disk)) AS b FROM system.parts_columns
		WHERE active AND database = currentDatabase() AND table = 'requests' GROUP BY column ORDER BY b DESC LIMIT 12`)
	if err != nil {
		return fmt.Errorf("ask for the sizes of columns: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var bytes float64
		if err := rows.Scan(&name, &bytes); err != nil {
			return err
		}
		t.Rows = append(t.Rows, Row{Name: "column `" + name + "`", Values: []Number{none, Number(bytes), none, Number(bytes / requests)}, Ratio: none})
	}
	return rows.Err()
}
