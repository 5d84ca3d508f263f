package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
)

// StatusTable is a StatusStore over the table coordinator_status.
type StatusTable struct{ conn driver.Conn }

// NewStatusTable is a StatusStore over conn's database.
func NewStatusTable(conn driver.Conn) *StatusTable { return &StatusTable{conn: conn} }

// Put is of StatusStore. The same word again changes nothing.
func (t *StatusTable) Put(ctx context.Context, said []schema.AppliedStatus) error {
	batch, err := t.conn.PrepareBatch(ctx, "INSERT INTO coordinator_status (at, instance, revision, applied, reason)")
	if err != nil {
		return fmt.Errorf("prepare insert into coordinator_status: %w", clickhouse.Explain(err))
	}
	defer batch.Abort() // does nothing after Send
	for _, s := range said {
		if err := batch.Append(time.Unix(0, s.AtNanos).UTC(), s.Instance, uint64(s.Revision), s.Applied, s.Reason); err != nil {
			return fmt.Errorf("encode row of coordinator_status: %w", err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert into coordinator_status: %w", clickhouse.Explain(err))
	}
	return nil
}

// Last is of StatusStore.
func (t *StatusTable) Last(ctx context.Context, since time.Time) ([]schema.AppliedStatus, error) {
	rows, err := t.conn.Query(ctx, `SELECT instance, max(at), argMax(revision, (at, revision)), argMax(applied, (at, revision)), argMax(reason, (at, revision))
		FROM coordinator_status WHERE at >= fromUnixTimestamp64Nano(toInt64(?), 'UTC') GROUP BY instance ORDER BY max(at) DESC LIMIT ?`, since.UnixNano(), maxPending)
	if err != nil {
		return nil, fmt.Errorf("read coordinator_status: %w", clickhouse.Explain(err))
	}
	defer rows.Close()
	var out []schema.AppliedStatus
	for rows.Next() {
		var s schema.AppliedStatus
		var at time.Time
		var revision uint64
		if err := rows.Scan(&s.Instance, &at, &revision, &s.Applied, &s.Reason); err != nil {
			return nil, fmt.Errorf("decode row of coordinator_status: %w", err)
		}
		s.AtNanos, s.Revision = at.UnixNano(), int64(revision)
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read coordinator_status: %w", clickhouse.Explain(err))
	}
	return out, nil
}
