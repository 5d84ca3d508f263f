package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// ClickHouse is a Store over the table coefficients of conn's database.
type ClickHouse struct{ conn driver.Conn }

// NewClickHouse is a Store over conn.
func NewClickHouse(conn driver.Conn) *ClickHouse { return &ClickHouse{conn: conn} }

// settled asks a replicated table for a quorum and for reads that follow it; a
// table of one server has both anyway.
func settled(ctx context.Context, more ch.Settings) context.Context {
	settings := ch.Settings{
		"async_insert":                  0,
		"insert_quorum":                 "auto",
		"insert_quorum_parallel":        0,
		"select_sequential_consistency": 1,
	}
	for k, v := range more {
		settings[k] = v
	}
	return ch.Context(ctx, ch.WithSettings(settings))
}

// Insert is of Store. An error other than ErrTaken may come after the row was
// kept: the same row again tells.
func (c *ClickHouse) Insert(ctx context.Context, row Row) error {
	there, err := c.At(ctx, row.Revision)
	if !errors.Is(err, ErrNotFound) {
		return errors.Join(err, taken(there, row))
	}
	if err := c.insert(ctx, row); err != nil {
		return err
	}
	if there, err = c.At(ctx, row.Revision); err != nil {
		return fmt.Errorf("read back coefficients %d: %w", row.Revision, err)
	}
	return taken(there, row)
}

// insert does nothing where the revision was inserted before.
func (c *ClickHouse) insert(ctx context.Context, row Row) error {
	once := ch.Settings{"insert_deduplicate": 1, "insert_deduplication_token": fmt.Sprintf("coefficients-%d", row.Revision)}
	batch, err := c.conn.PrepareBatch(settled(ctx, once), "INSERT INTO coefficients (revision, created, payload, signature, note)")
	if err != nil {
		return fmt.Errorf("prepare insert into coefficients: %w", clickhouse.Explain(err))
	}
	defer batch.Abort() // does nothing after Send
	err = batch.Append(uint64(row.Revision), time.Unix(0, row.CreatedNanos).UTC(), row.Payload, row.Signature, row.Note)
	if err != nil {
		return fmt.Errorf("encode row of coefficients: %w", err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert into coefficients: %w", clickhouse.Explain(err))
	}
	return nil
}

// Newest is of Store.
func (c *ClickHouse) Newest(ctx context.Context, limit int) ([]Row, error) {
	return c.query(ctx, `revision IN (SELECT DISTINCT revision FROM coefficients ORDER BY revision DESC LIMIT ?)`, max(1, limit))
}

// At is of Store.
func (c *ClickHouse) At(ctx context.Context, revision int64) (Row, error) {
	rows, err := c.query(ctx, "revision = ?", revision)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Row{}, err
	}
	return rows[0], nil
}

// query gives one row a revision, highest first.
func (c *ClickHouse) query(ctx context.Context, where string, args ...any) ([]Row, error) {
	rows, err := c.conn.Query(settled(ctx, nil), "SELECT revision, created, payload, signature, note FROM coefficients FINAL WHERE "+
		where+" ORDER BY revision DESC, created, payload LIMIT 1 BY revision", args...)
	if err != nil {
		return nil, fmt.Errorf("read coefficients: %w", clickhouse.Explain(err))
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
		return nil, fmt.Errorf("read coefficients: %w", clickhouse.Explain(err))
	}
	return out, nil
}
