package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// newShardedWorld is a world upon two shards: conn reads the tables over both.
func newShardedWorld(t *testing.T) *world {
	dsn := clickhousetest.Pair(t).DSN(t)
	_, err := migrate.Sharded{DSN: dsn, Cluster: clickhousetest.Cluster}.Up(t.Context())
	require.NoError(t, err)
	conn, err := clickhouse.Open(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	w := worldOf(t, conn)
	local, err := clickhouse.OpenEach(t.Context(), dsn, clickhouse.LocalDatabase(conn.Database()))
	require.NoError(t, err)
	for _, c := range local {
		t.Cleanup(func() { c.Close() })
		w.local = append(w.local, c)
	}
	return w
}

// on is the answer of one shard to a query of one number.
func (w *world) on(shard int, query string) (n float64) {
	w.t.Helper()
	require.NoError(w.t, w.local[shard].QueryRow(context.Background(), "SELECT toFloat64(("+query+"))").Scan(&n))
	return n
}

// everything is four parts and a leg of each of n requests, some twice, shuffled.
func everything(n uint64) (parts []*schema.Part) {
	r := rand.New(rand.NewPCG(n, 2))
	for i := range n {
		at := time.Duration(i) * time.Second
		for range 1 + r.IntN(2) {
			parts = append(parts, contract(i, at), engine(i, at), transfer(i, 0, at), transfer(i, 1, at), leg(i, at))
		}
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return parts
}

// holdsOnce sees that the shards together hold the n requests of everything.
func (w *world) holdsOnce(n int) {
	w.t.Helper()
	require.EqualValues(w.t, n, w.number("SELECT count() FROM requests FINAL WHERE kind = 'contract' AND length(spans) = 4 AND arraySum(mapValues(moved)) = 2000"))
	require.EqualValues(w.t, n, w.number("SELECT uniqExact(id) FROM requests"))
	require.EqualValues(w.t, n, w.number("SELECT count() FROM requests FINAL"))
	require.EqualValues(w.t, n, w.number("SELECT count() FROM replays FINAL"))
	require.EqualValues(w.t, 3*n, w.number("SELECT count() FROM transfers FINAL WHERE joined = 1"))
	require.EqualValues(w.t, 3*n, w.number("SELECT count() FROM transfers FINAL"))
	require.Zero(w.t, w.number("SELECT count() FROM waiting FINAL"))
	for i := range w.local {
		require.Zero(w.t, w.on(i, fmt.Sprintf("SELECT countIf(reinterpretAsUInt64(substring(id, 9, 8)) %% 2 != %d) FROM requests", i)))
		require.Greater(w.t, w.on(i, "SELECT count() FROM requests FINAL"), float64(n)/4)
		require.Positive(w.t, w.on(i, "SELECT count() FROM slices"))
	}
	w.slicesEqualARecount()
	require.EqualValues(w.t, n, w.number(fmt.Sprintf("SELECT sum(n) FROM slices_between(from = toDateTime(%d), until = toDateTime(%d))", base.Unix(), base.Unix()+7200)))
}

func TestShardsHoldEveryRequestOnce(t *testing.T) {
	w := newShardedWorld(t)
	for i, p := range everything(60) {
		w.topic.publish(i%3, p)
	}
	w.loaded()
	w.loaded() // transfers hang on engines' spans that joined just now
	w.holdsOnce(60)
	require.EqualValues(t, w.number("SELECT sum(next) FROM positions FINAL"), w.on(0, "SELECT sum(next) FROM positions FINAL"))
}

// apart is the number of a request whose engine's span lies on the other shard.
func apart(after time.Duration) uint64 {
	for n := uint64(0); ; n++ {
		if shardOf(contract(n, after).RowID(), 2) != shardOf(engine(n, after).RowID(), 2) {
			return n
		}
	}
}

func TestALatePartFindsItsRequestOnAnotherShard(t *testing.T) {
	w := newShardedWorld(t)
	n := apart(0)
	w.topic.publish(0, engine(n, 0))
	w.loaded()
	require.EqualValues(t, 1, w.number("SELECT count() FROM waiting FINAL"))
	w.topic.publish(0, contract(n, 0))
	w.loaded() // another load: it remembers nothing of the part
	require.Zero(t, w.number("SELECT count() FROM waiting FINAL"))
	home := shardOf(contract(n, 0).RowID(), 2)
	require.EqualValues(t, 1, w.on(home, "SELECT count() FROM requests FINAL WHERE length(spans) = 2 AND engine_model = 'llama-3' AND policy = 'always'"))
	require.Zero(t, w.on(1-home, "SELECT count() FROM requests"))
	w.slicesEqualARecount()
}

// told is a log that says when load tries something again.
type told struct {
	what   string
	failed chan struct{}
}

func (told) Enabled(context.Context, slog.Level) bool { return true }
func (h told) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h told) WithGroup(string) slog.Handler          { return h }
func (h told) Handle(_ context.Context, r slog.Record) error {
	if strings.HasSuffix(r.Message, h.what+" failed, trying again") {
		select {
		case h.failed <- struct{}{}:
		default:
		}
	}
	return nil
}

func TestABatchThatReachedOneShardIsRepeated(t *testing.T) {
	w := newShardedWorld(t)
	parts := everything(40)
	third := len(parts) / 3 // in one message a partition: the first round has parts for both shards, whatever it takes
	w.topic.publish(0, parts[:third]...)
	w.topic.publish(1, parts[third:2*third]...)
	w.topic.publish(2, parts[2*third:]...)
	for i := range 2 {
		l := w.loader(w.topic.member())
		dead := &dying{Conn: w.local[i], after: i == 0}
		dead.left.Store(2)
		l.store.shards = slices.Clone(w.local)
		l.store.shards[i] = dead
		require.ErrorIs(t, errors.Join(runToTheEnd(t.Context(), l, w.topic.ends())...), errKilled)
	}
	require.Empty(t, w.topic.done(), "nothing is said to be loaded")
	require.Positive(t, w.on(0, "SELECT (SELECT count() FROM requests) + (SELECT count() FROM transfers) + (SELECT count() FROM replays) + (SELECT count() FROM waiting)"),
		"the first write reached its shard, into whichever table")
	w.loaded()
	w.loaded()
	w.holdsOnce(40)
	require.Equal(t, w.topic.ends(), w.topic.done())
}

func TestLoadWaitsForAShard(t *testing.T) {
	pair, w := clickhousetest.Pair(t), newShardedWorld(t)
	for i, p := range everything(20) {
		w.topic.publish(i%3, p)
	}
	l := w.loader(w.topic.member())
	h := told{"insert", make(chan struct{}, 1)}
	l.log = slog.New(h)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	w.settled(l)
	committed := w.topic.done()
	pair.Stop(t, 1)
	for i, p := range everything(40) {
		w.topic.publish(i%3, p)
	}
	<-h.failed
	require.Equal(t, committed, w.topic.done(), "nothing more is said to be loaded")
	pair.Start(t, 1)
	w.settled(l)
	cancel()
	require.NoError(t, <-done)
	w.loaded()
	w.holdsOnce(40)
	require.Equal(t, w.topic.ends(), w.topic.done())
}

func TestLoadOverTheNativeProtocol(t *testing.T) {
	conn, err := clickhouse.Open(t.Context(), clickhousetest.Native(t))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	require.True(t, conn.Native())
	w := worldOf(t, conn)
	for i, p := range everything(30) {
		w.topic.publish(i%3, p)
	}
	w.loaded()
	w.loaded()
	require.EqualValues(t, 30, w.number("SELECT count() FROM requests FINAL WHERE kind = 'contract' AND length(spans) = 4 AND arraySum(mapValues(moved)) = 2000"))
	require.EqualValues(t, 30, w.number("SELECT count() FROM replays FINAL"))
	require.EqualValues(t, 90, w.number("SELECT count() FROM transfers FINAL WHERE joined = 1"))
	require.EqualValues(t, 30, w.number("SELECT sum(n) FROM "+currentSlices))

	other := newWorld(t) // over HTTP
	other.topic.logs = w.topic.logs
	other.loaded()
	other.loaded()
	const all = "SELECT sum(cityHash64(* EXCEPT (spans, contents))) FROM requests FINAL"
	require.Equal(t, other.number(all), w.number(all), "the same rows as over HTTP")
}

var _ native = (*clickhouse.Conn)(nil)
var _ driver.Conn = (*clickhouse.Conn)(nil)
