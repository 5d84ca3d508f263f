package load

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

//go:embed recompute_slices.sql
var slicesSQL string

//go:embed recompute_worst.sql
var worstSQL string

// store is the database as load uses it. Every method can be repeated.
type store struct {
	conn    driver.Conn   // reads: of several shards, to the tables over all
	shards  []driver.Conn // to each shard's own tables; none: conn is to the only ones
	metrics *metrics
}

// errMissing is the error of an insert that was answered well and whose rows
// are not there.
var errMissing = errors.New("ClickHouse has answered the insert, and the rows are not in the table")

// writing are the settings of an insert. Rows of one key are left for the merges
// and FINAL to put together: to do it at the insert, for all columns of all rows,
// costs the server more than the rest of it (of 100,000 rows, 5.2 and 8.6 µs a row,
// without and with candidates; so, 2.2 and 1.8).
var writing = ch.WithSettings(ch.Settings{"async_insert": 0, "optimize_on_insert": 0})

// insert sends one block and sees that it arrived.
func (s *store) insert(ctx context.Context, b *block) error {
	body, err := b.encode()
	if err != nil {
		return permanent{err}
	}
	began := time.Now()
	ctx = ch.Context(ctx, writing)
	if err := s.send(ctx, b, body); err != nil {
		return fmt.Errorf("insert %d rows into %s: %w", b.rows, b.table, clickhouse.Classify(err))
	}
	s.metrics.insert.Observe(time.Since(began).Seconds())
	s.metrics.rows.WithLabelValues(b.table).Add(float64(b.rows))
	if b.table == "requests" {
		return s.arrived(ctx, b)
	}
	return nil
}

// native is a connection that takes typed columns; *clickhouse.Conn is one where
// Native says so.
type native interface {
	Native() bool
	InsertColumns(ctx context.Context, insert string, columns []proto.InputColumn) error
}

// send gives the block to its shard, in the protocol that the connection speaks.
func (s *store) send(ctx context.Context, b *block, body []byte) error {
	conn := s.shard(b.shard)
	if n, ok := conn.(native); ok && n.Native() {
		return n.InsertColumns(ctx, b.insert(), b.input())
	}
	return conn.InsertFormat(ctx, "Native", b.insert(), bytes.NewReader(body))
}

// arrived looks for the first and the last row of a block of requests: the
// columns minute and id are its first two. Rows of another day are not looked
// for: they may be older than what the table keeps.
func (s *store) arrived(ctx context.Context, b *block) error {
	at, ids := b.columns[0].data.(*proto.ColDateTime).Data, *b.columns[1].data.(*proto.ColFixedStr16)
	first, last := 0, b.rows-1
	if time.Since(at[first].Time()) > 23*time.Hour || time.Since(at[last].Time()) > 23*time.Hour {
		return nil
	}
	query := fmt.Sprintf("SELECT uniqExact(id) FROM requests WHERE minute IN (%d, %d) AND id IN (unhex('%x'), unhex('%x'))",
		at[first], at[last], ids[first][:], ids[last][:])
	want := uint64(2)
	if ids[first] == ids[last] {
		want = 1
	}
	var got uint64
	if err := s.shard(b.shard).QueryRow(ctx, query).Scan(&got); err != nil {
		return fmt.Errorf("look for inserted rows: %w", clickhouse.Classify(err))
	}
	if got < want {
		return errMissing
	}
	return nil
}

// recomputeSettings turn off the making of machine code for expressions: it costs
// the third query 0.2 s, and saves none of those that follow anything measurable.
var recomputeSettings = ch.Settings{"async_insert": 0, "do_not_merge_across_partitions_select_final": 1,
	"compile_expressions": 0, "compile_aggregate_expressions": 0, "compile_sort_description": 0}

// recompute makes the rollups of the minutes again, each shard its own.
func (s *store) recompute(ctx context.Context, list []int64, worst int) error {
	began := time.Now()
	in := strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
	ctx = ch.Context(ctx, ch.WithSettings(recomputeSettings))
	err := s.each(ctx, func(ctx context.Context, conn driver.Conn, shard int) error {
		for _, step := range []struct{ table, query string }{
			{"slices", fmt.Sprintf(statement(slicesSQL), shard, in)},
			{"worst", fmt.Sprintf(statement(worstSQL), shard, in, worst)},
		} {
			if err := conn.Exec(ctx, step.query); err != nil {
				return fmt.Errorf("make %d minutes of %s again: %w", len(list), step.table, clickhouse.Classify(err))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.metrics.recompute.Observe(time.Since(began).Seconds())
	s.metrics.remade.Add(float64(len(list)))
	return nil
}

// statement is an SQL file without the comment that it begins with.
func statement(file string) string {
	for strings.HasPrefix(file, "--") {
		_, file, _ = strings.Cut(file, "\n")
	}
	return file
}

// permanent marks an error that trying again can not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Waits between attempts: doubling, each cut by up to a half at random.
const (
	firstWait = 50 * time.Millisecond
	lastWait  = 10 * time.Second
)

// again runs step until it succeeds, its error is permanent, or ctx ends. note
// is told of each failure that will be tried again.
func again(ctx context.Context, note func(error), retryable func(error) bool, step func(context.Context) error) error {
	wait := firstWait
	for {
		err := step(ctx)
		if err == nil {
			return nil
		}
		var p permanent
		if ctx.Err() != nil || errors.As(err, &p) || !retryable(err) {
			return err
		}
		note(err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		wait = min(2*wait, lastWait)
	}
}
