package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ClickHouse is a Store over the table coefficients of conn's database. Insert
// and the reads ask a replicated table for a quorum and for sequential
// consistency; a table of one server has both anyway.
type ClickHouse struct{ conn driver.Conn }

// NewClickHouse is a Store over conn.
func NewClickHouse(conn driver.Conn) *ClickHouse { return &ClickHouse{conn: conn} }

func settled(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"async_insert":                  0,
		"insert_quorum":                 "auto",
		"insert_quorum_parallel":        0,
		"select_sequential_consistency": 1,
	}))
}

// Insert appends row and returns once it can be read.
func (c *ClickHouse) Insert(ctx context.Context, row Row) error {
	batch, err := c.conn.PrepareBatch(settled(ctx), "INSERT INTO coefficients (revision, created, payload, signature, note)")
	if err != nil {
		return fmt.Errorf("prepare insert into coefficients: %w", err)
	}
	defer batch.Abort() // does nothing after Send
	err = batch.Append(uint64(row.Revision), time.Unix(0, row.CreatedNanos).UTC(), row.Payload, row.Signature, row.Note)
	if err != nil {
		return fmt.Errorf("encode row of coefficients: %w", err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert into coefficients: %w", err)
	}
	return nil
}

const selectRows = "SELECT revision, created, payload, signature, note FROM coefficients FINAL "

// Newest is of Store.
func (c *ClickHouse) Newest(ctx context.Context, limit int) ([]Row, error) {
	rows, err := c.query(ctx, selectRows+`WHERE revision >=
		(SELECT min(revision) FROM (SELECT DISTINCT revision FROM coefficients WHERE payload != '' ORDER BY revision DESC LIMIT ?))`, max(1, limit))
	return newest(rows, limit), err
}

// At is of Store.
func (c *ClickHouse) At(ctx context.Context, revision int64) ([]Row, error) {
	return c.query(ctx, selectRows+"WHERE revision = ? ORDER BY created", revision)
}

func (c *ClickHouse) query(ctx context.Context, query string, args ...any) ([]Row, error) {
	rows, err := c.conn.Query(settled(ctx), query, args...)
	if err != nil {
		return nil, fmt.Errorf("read coefficients: %w", err)
	}
	defer rows.Close()
	var out []Row
	for rows.Next() {
		var r Row
		var revision uint64
		var created time.Time
		if err := rows.Scan(&revision, &created, &r.Payload, &r.Signature, &r.Note); err != nil {
			return nil, fmt.Errorf("decode row of coefficients: %w", err)
		}
		r.Revision, r.CreatedNanos = int64(revision), created.UnixNano()
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read coefficients: %w", err)
	}
	return out, nil
}
