package load

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// positions are the offsets that come next, by partition: all before them are
// inserted and visible.
type positions struct {
	mu      sync.Mutex
	next    map[int]int64
	moved   chan struct{} // closed and replaced when next changes
	waiters atomic.Int32
}

func newPositions() *positions {
	return &positions{next: map[int]int64{}, moved: make(chan struct{})}
}

// advance sets the positions given. A position goes back where a partition is
// read again.
func (p *positions) advance(next map[int]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.next, next)
	close(p.moved)
	p.moved = make(chan struct{})
}

func (p *positions) get() map[int]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.next)
}

// wait returns when every position has reached its end.
func (p *positions) wait(ctx context.Context, ends map[int]int64) error {
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	for {
		p.mu.Lock()
		behind, moved := behindOf(p.next, ends), p.moved
		p.mu.Unlock()
		if behind == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %d more messages are loaded: %w", behind, ctx.Err())
		case <-moved:
		}
	}
}

// behindOf is how many messages are missing; a partition of which nothing is
// known is at 0.
func behindOf(next, ends map[int]int64) (n int64) {
	for partition, end := range ends {
		n += max(0, end-next[partition])
	}
	return n
}

// readPositions gives what earlier loads have written.
func readPositions(ctx context.Context, conn driver.Conn, topic string) (map[int]int64, error) {
	rows, err := conn.Query(ctx, "SELECT partition, next FROM positions FINAL WHERE topic = ?", topic)
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", clickhouse.Classify(err))
	}
	defer rows.Close()
	next := map[int]int64{}
	for rows.Next() {
		var partition uint32
		var offset int64
		if err := rows.Scan(&partition, &offset); err != nil {
			return nil, fmt.Errorf("read positions: %w", clickhouse.Classify(err))
		}
		next[int(partition)] = offset
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read positions: %w", clickhouse.Classify(err))
	}
	return next, nil
}

// writePositions keeps them for the next start.
func writePositions(ctx context.Context, conn driver.Conn, topic string, next map[int]int64, nanos int64) error {
	if len(next) == 0 {
		return nil
	}
	values := make([]string, 0, len(next))
	for partition, offset := range next {
		values = append(values, fmt.Sprintf("(?, %d, %d, fromUnixTimestamp64Nano(%d, 'UTC'))", partition, offset, nanos))
	}
	topics := make([]any, len(values))
	for i := range topics {
		topics[i] = topic
	}
	query := "INSERT INTO positions (topic, partition, next, at) SETTINGS async_insert = 0 VALUES " + strings.Join(values, ", ")
	if err := conn.Exec(ctx, query, topics...); err != nil {
		return fmt.Errorf("write positions: %w", clickhouse.Classify(err))
	}
	return nil
}
