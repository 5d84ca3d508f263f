package load

import (
	"context"
	"encoding/binary"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/schema"
)

// shardOf is the shard, from 0, that rows of the id are on: its last eight bytes,
// little-endian, modulo the number of shards. An id is a hash already. In SQL:
// reinterpretAsUInt64(substring(id, 9, 8)) % shards.
func shardOf(id schema.RowID, shards int) int {
	return int(binary.LittleEndian.Uint64(id[8:]) % uint64(shards))
}

// home is the id by which a row of the shape finds its shard: that of the request,
// or of its own span. A part that joins a request lies with that; all rows of one
// key lie together.
func (r *row) home(s shape) schema.RowID {
	if s <= shapeMoved || r.part == nil { // a contract span's row has the span's own id
		return r.id
	}
	return r.part.RowID()
}

// shard is the connection to one shard's own tables.
func (s *store) shard(i int) driver.Conn {
	if len(s.shards) == 0 {
		return s.conn
	}
	return s.shards[i]
}

// shards is how many there are.
func (l *Loader) shards() int { return max(1, len(l.store.shards)) }

// each takes a step on every shard, on all at once.
func (s *store) each(ctx context.Context, step func(ctx context.Context, conn driver.Conn, shard int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range max(1, len(s.shards)) {
		group.Go(func() error { return step(ctx, s.shard(i), i) })
	}
	return group.Wait()
}
