package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// first are the objects as the first kvwhatif made them.
func first(t *testing.T) definitions {
	files, err := filepath.Glob("../../schema/ddl/testdata/first/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var d definitions
	for i, file := range files {
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		d.objects = append(d.objects, ddl.Object{Version: i + 1, Name: name[5:], SQL: string(body)})
	}
	return d
}

// at is an instant of rows: recent, or the tables let them expire.
var at = strconv.FormatInt(time.Now().Add(-2*time.Hour).Truncate(time.Hour).Unix(), 10)

// old is a database that the first kvwhatif made, with rows.
func old(t *testing.T) driver.Conn {
	conn := clickhousetest.Open(t)
	_, err := first(t).apply(t.Context(), conn, "")
	require.NoError(t, err)
	for _, insert := range []string{
		"INSERT INTO requests (minute, id, trace, spans, contents, kind, start, policy, path, chosen, model, tokens_prompt, bytes, ttft, candidate.path, candidate.ttft, candidate.bytes, alt_ttft, alt_externality, externality, moved) " +
			"SELECT toDateTime(" + at + ") + 60 * intDiv(number, 100), toFixedString(unhex(leftPad(hex(number), 32, '0')), 16), toFixedString(unhex(leftPad(hex(number * 7), 32, '0')), 16), [number], [number * 3], 'contract', " +
			"toDateTime64(" + at + ", 9, 'UTC') + number / 1000, 'p', 'fetch', 0, 'm', number, number * 4096, number / 1000, ['fetch', 'recompute'], [number / 10, nan], [number, -1], number / 500, 0, 0, map(number, number * 2) FROM numbers(1000)",
		"INSERT INTO requests (minute, id, spans, engine_model) SELECT minute, id, [toUInt64(1000000)], 'engine' FROM requests WHERE chosen = 0 AND tokens_prompt % 3 = 0",
		"INSERT INTO transfers (start, trace, span, origin, tokens, flows, worker) SELECT toDateTime64(" + at + ", 9, 'UTC') + number, toFixedString(toString(number), 16), number, 'transfer', number, number % 7, 'w' FROM numbers(100)",
		"INSERT INTO slices (minute, policy, gen, n, sum_ttft, ttft_hist) VALUES (" + at + ", 'p', 1, 5, 2.5, [1]), (" + at + ", 'q', 2, 7, 3.5, [2])",
		"INSERT INTO worst (minute, rank, gen, policy, ttft) VALUES (" + at + ", 1, 2, 'p', 0.5)",
	} {
		require.NoError(t, conn.Exec(t.Context(), insert))
	}
	return conn
}

func fresh(t *testing.T) driver.Conn {
	conn := clickhousetest.Open(t)
	_, err := Up(t.Context(), conn)
	require.NoError(t, err)
	return conn
}

func lines(t *testing.T, conn driver.Conn, query string) string {
	r, err := conn.QueryFormat(t.Context(), "TSV", query)
	require.NoError(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

// schemaOf is all that the server says of the tables, and what is recorded.
func schemaOf(t *testing.T, conn driver.Conn) string {
	database := strings.TrimSpace(lines(t, conn, "SELECT currentDatabase()"))
	return strings.ReplaceAll(lines(t, conn, "SELECT name, engine_full, sorting_key, create_table_query FROM system.tables WHERE database = currentDatabase() ORDER BY name")+
		lines(t, conn, "SELECT table, position, name, type, default_kind, default_expression, compression_codec FROM system.columns WHERE database = currentDatabase() ORDER BY table, position")+
		lines(t, conn, "SELECT table, name, expr, type, granularity FROM system.data_skipping_indices WHERE database = currentDatabase() ORDER BY table, name")+
		lines(t, conn, "SELECT version, name, digest FROM schema_migrations FINAL ORDER BY version"), database, "DB")
}

// rowsOf is what the tables hold, in the columns that the first ones had.
func rowsOf(t *testing.T, conn driver.Conn) (all string) {
	for _, table := range []string{"requests", "transfers", "worst"} {
		all += lines(t, conn, "SELECT * EXCEPT shard APPLY toString FROM "+table+" FINAL ORDER BY ALL")
	}
	return all + lines(t, conn, "SELECT benefit FROM requests FINAL ORDER BY id") +
		lines(t, conn, "SELECT * EXCEPT (computed, shard) FROM slices_between(from = toDateTime("+at+") - 3600, until = toDateTime("+at+") + 3600)")
}

// unsharded is rowsOf where there is no column shard yet.
func unsharded(t *testing.T, conn driver.Conn) (all string) {
	for _, table := range []string{"requests", "transfers", "worst"} {
		all += lines(t, conn, "SELECT * APPLY toString FROM "+table+" FINAL ORDER BY ALL")
	}
	return all + lines(t, conn, "SELECT benefit FROM requests FINAL ORDER BY id") +
		lines(t, conn, "SELECT * EXCEPT computed FROM slices_between(from = toDateTime("+at+") - 3600, until = toDateTime("+at+") + 3600)")
}

func TestAnOldDatabaseBecomesAFreshOne(t *testing.T) {
	conn := old(t)
	before := unsharded(t, conn)
	require.Contains(t, before, "\tq\t")
	require.NotContains(t, before, "\t2.5\t", "a row of an earlier gen")

	pending, err := Pending(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, "change 0001_slices_shard", pending[0].Name)
	require.NotEmpty(t, pending[0].Statements)
	require.Equal(t, before, unsharded(t, conn), "a dry run changes nothing")

	done, err := Up(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, pending, done)
	require.Equal(t, schemaOf(t, fresh(t)), schemaOf(t, conn))
	require.Equal(t, before, rowsOf(t, conn))
	for _, table := range []string{"requests", "transfers", "slices", "worst"} {
		require.NoError(t, conn.Exec(t.Context(), "OPTIMIZE TABLE "+table+" FINAL"))
	}
	require.Equal(t, before, rowsOf(t, conn), "after the old parts were written anew")

	done, err = Up(t.Context(), conn)
	require.NoError(t, err)
	require.Empty(t, done)
}

func TestChangesLeaveAFreshDatabaseAsItIs(t *testing.T) {
	conn := fresh(t)
	want := schemaOf(t, conn)
	for _, c := range ddl.Changes() {
		for range 2 {
			for _, s := range c.Statements() {
				require.NoError(t, conn.Exec(t.Context(), s))
			}
		}
	}
	require.Equal(t, want, schemaOf(t, conn))
}

// failing is a connection whose n-th statement fails, before or after it was run.
type failing struct {
	driver.Conn
	left  int
	after bool
}

var errAway = errors.New("the server is away")

func (f *failing) Exec(ctx context.Context, query string, args ...any) error {
	if f.left--; f.left != 0 {
		return f.Conn.Exec(ctx, query, args...)
	}
	if f.after {
		_ = f.Conn.Exec(ctx, query, args...)
	}
	return errAway
}

func TestFailureAtAnyStatementIsGoneOnFrom(t *testing.T) {
	conn := old(t)
	before := unsharded(t, conn)
	failed := 0
	for {
		_, err := current().apply(t.Context(), &failing{Conn: conn, left: failed + 1, after: failed%2 == 0}, "")
		if err == nil {
			break
		}
		require.ErrorIs(t, err, errAway)
		failed++
	}
	require.Greater(t, failed, 5)
	require.Equal(t, schemaOf(t, fresh(t)), schemaOf(t, conn))
	require.Equal(t, before, rowsOf(t, conn))
}

func TestSeveralMigrateAtOnce(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) driver.Conn{
		"old": old, "empty": func(t *testing.T) driver.Conn { return clickhousetest.Open(t) },
	} {
		t.Run(name, func(t *testing.T) {
			conn := begin(t)
			group, ctx := errgroup.WithContext(t.Context())
			for i := range 4 {
				group.Go(func() error {
					if _, err := Up(ctx, conn); err != nil {
						return fmt.Errorf("process %d: %w", i, err)
					}
					return nil
				})
			}
			require.NoError(t, group.Wait())
			require.Equal(t, schemaOf(t, fresh(t)), schemaOf(t, conn))
		})
	}
}
