package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// topic is a topic of parts and its one group, in memory: what it delivers
// begins at what was committed, as with a broker.
type topic struct {
	mu        sync.Mutex
	logs      map[int][]kafka.Message
	committed map[int]int64
	grown     chan struct{}
	letters   []wire.DeadLetter
	fail      func() error // of Produce
}

func newTopic() *topic {
	return &topic{logs: map[int][]kafka.Message{}, committed: map[int]int64{}, grown: make(chan struct{})}
}

// publish appends one message of the parts to a partition.
func (t *topic) publish(partition int, parts ...*schema.Part) {
	t.raw(partition, wire.AppendBatch(nil, parts...))
}

func (t *topic) raw(partition int, value []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	log := t.logs[partition]
	t.logs[partition] = append(log, kafka.Message{Topic: schema.TopicParts, Partition: partition, Offset: int64(len(log)), Value: value})
	close(t.grown)
	t.grown = make(chan struct{})
}

func (t *topic) ends() map[int]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	ends := map[int]int64{}
	for p, log := range t.logs {
		ends[p] = int64(len(log))
	}
	return ends
}

func (t *topic) done() map[int]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := map[int]int64{}
	for p, o := range t.committed {
		done[p] = o
	}
	return done
}

func (t *topic) Produce(_ context.Context, name string, messages ...kafka.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fail != nil {
		if err := t.fail(); err != nil {
			return err
		}
	}
	for _, m := range messages {
		var l wire.DeadLetter
		if err := wire.DecodeDeadLetter(m.Value, &l); err != nil || name != schema.TopicDead {
			return fmt.Errorf("topic %s: %w", name, err)
		}
		t.letters = append(t.letters, l)
	}
	return nil
}

// member is a consumer of the topic.
type member struct {
	*topic
	next     map[int]int64
	noCommit bool
}

func (t *topic) member() *member { return &member{topic: t, next: t.done()} }

func (m *member) Fetch(ctx context.Context) (kafka.Message, error) {
	for {
		m.mu.Lock()
		for p, log := range m.logs {
			if n := m.next[p]; n < int64(len(log)) {
				m.next[p]++
				m.mu.Unlock()
				return log[n], nil
			}
		}
		grown := m.grown
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return kafka.Message{}, ctx.Err()
		case <-grown:
		}
	}
}

func (m *member) Commit(_ context.Context, messages ...kafka.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.noCommit {
		return errors.New("the broker is away")
	}
	for _, c := range messages {
		m.committed[c.Partition] = c.Offset + 1
	}
	return nil
}

// world is a database with tables, a topic, and loads upon them.
type world struct {
	t     testing.TB
	conn  *clickhouse.Conn
	local []driver.Conn // of shards
	topic *topic
	cfg   Config
	now   func() time.Time
}

func newWorld(t testing.TB) *world {
	conn := clickhousetest.Open(t)
	_, err := migrate.Up(context.Background(), conn)
	require.NoError(t, err)
	return worldOf(t, conn)
}

func worldOf(t testing.TB, conn *clickhouse.Conn) *world {
	cfg := Default()
	cfg.SweepEvery = time.Hour // tests sweep by hand
	cfg.Linger = 0
	return &world{t: t, conn: conn, topic: newTopic(), cfg: cfg, now: time.Now}
}

func (w *world) loader(source Source) *Loader {
	l, err := New(w.cfg, Options{Conn: w.conn, Shards: w.local, Source: source, Dead: w.topic, Now: w.now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(w.t, err)
	return l
}

// run starts a load; stop ends it as a shutdown does.
func (w *world) run() (l *Loader, stop func()) {
	l = w.loader(w.topic.member())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() {
		cancel()
		require.NoError(w.t, <-done)
	}
}

// loaded runs a load until all that was published is in, rollups too.
func (w *world) loaded() {
	l, stop := w.run()
	defer stop()
	w.settled(l)
}

// patience ends what hangs; a machine that is only busy is waited for.
const patience = 5 * time.Minute

func (w *world) settled(l *Loader) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(w.t, l.WaitFor(ctx, w.topic.ends()))
	require.NoError(w.t, l.Sweep(ctx))
	require.NoError(w.t, l.Flush(ctx))
}

// number is the answer to a query of one number.
func (w *world) number(query string) float64 {
	w.t.Helper()
	var n float64
	require.NoError(w.t, w.conn.QueryRow(context.Background(), "SELECT toFloat64(("+query+"))").Scan(&n))
	return n
}

// lines is the answer to a query, a tab-separated line a row.
func (w *world) lines(query string) string {
	w.t.Helper()
	r, err := w.conn.QueryFormat(context.Background(), "TSV", query)
	require.NoError(w.t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	require.NoError(w.t, err)
	return string(b)
}

const currentSlices = "slices FINAL WHERE (shard, minute, gen) GLOBAL IN (SELECT shard, minute, max(gen) FROM slices GROUP BY shard, minute)"
