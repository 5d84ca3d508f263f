package load

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

func TestPaceYieldsAndComesBack(t *testing.T) {
	cfg := Default()
	p := newPace(cfg)
	require.Equal(t, cfg.Linger, p.between())
	p.inserted(300 * time.Millisecond)
	require.Equal(t, 300*time.Millisecond, p.between(), "as long as an insert takes")
	p.inserted(time.Minute)
	require.Equal(t, 20*cfg.Linger, p.between(), "but one slow insert does not stop load")
	p.inserted(time.Millisecond)
	tooMany, memory := &ch.Exception{Code: codeTooManyParts}, &ch.Exception{Code: codeMemory}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, longestBetween, longestBetween} {
		require.Equal(t, codeTooManyParts, p.refused(tooMany))
		require.Equal(t, want, p.between())
	}
	require.Equal(t, cfg.MaxRows, p.mostRows(), "fewer inserts are larger ones")
	for range 20 {
		p.refused(memory)
	}
	require.Equal(t, fewestRows, p.mostRows())
	p.refused(io.EOF)
	for range calmFor * 40 {
		p.inserted(time.Millisecond)
	}
	require.Equal(t, cfg.Linger, p.between())
	require.Equal(t, cfg.MaxRows, p.mostRows())
}

// small is a connection to a server that has no memory for inserts above most
// bytes.
type small struct {
	driver.Conn
	most    int
	refused atomic.Int64
}

func (s *small) InsertFormat(ctx context.Context, format, query string, data io.Reader) error {
	body, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	if len(body) > s.most {
		s.refused.Add(1)
		return &ch.Exception{Code: codeMemory, Message: "Memory limit exceeded"}
	}
	return s.Conn.InsertFormat(ctx, format, query, bytes.NewReader(body))
}

// TestARoundWithoutMemoryIsTakenInHalves until its inserts fit; a dead letter of
// it is written once.
func TestARoundWithoutMemoryIsTakenInHalves(t *testing.T) {
	w := newWorld(t)
	l := w.loader(w.topic.member())
	server := &small{Conn: w.conn, most: 4000}
	l.store.conn = server
	l.batch.message(kafka.Message{Offset: 0, Value: []byte("poison")})
	for i := range uint64(16) {
		l.batch.message(kafka.Message{Offset: int64(i + 1), Value: wire.AppendBatch(nil, contract(i, 0), engine(i, 0))})
	}
	require.NoError(t, l.round(t.Context()))
	require.Positive(t, server.refused.Load())
	require.EqualValues(t, 16, w.number("SELECT count() FROM requests FINAL WHERE length(spans) = 2"))
	require.EqualValues(t, 17, l.Position()[0])
	require.Len(t, w.topic.letters, 1)
	require.Less(t, l.pace.mostRows(), w.cfg.MaxRows)
}

// endless is a source of large messages, and a producer that answers nothing.
type endless struct {
	driver.Conn
	fetched atomic.Int64
}

func (e *endless) Fetch(ctx context.Context) (kafka.Message, error) {
	n := e.fetched.Add(1)
	return kafka.Message{Offset: n - 1, Value: make([]byte, 1<<20)}, ctx.Err()
}

func (e *endless) Commit(context.Context, ...kafka.Message) error { return nil }

func (e *endless) Produce(ctx context.Context, _ string, _ ...kafka.Message) error {
	<-ctx.Done()
	return ctx.Err()
}

func (e *endless) Query(context.Context, string, ...any) (driver.Rows, error) { return noRows{}, nil }

type noRows struct{ driver.Rows }

func (noRows) Next() bool   { return false }
func (noRows) Err() error   { return nil }
func (noRows) Close() error { return nil }

// TestReadingAheadIsBoundedInBytes: while nothing can be written, load holds one
// round and what it may fetch ahead, and then fetches no more.
func TestReadingAheadIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.MaxBytes, cfg.FromBeginning = 8<<20, true
		e := &endless{}
		l, err := New(cfg, Options{Conn: e, Source: e, Dead: e, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(time.Hour) // of the bubble
		synctest.Wait()
		require.LessOrEqual(t, e.fetched.Load(), int64(8+queuedBytes>>20+1))
		require.Greater(t, e.fetched.Load(), int64(8))
		cancel()
		require.NoError(t, <-done)
	})
}

// TestOnePartTooOldIsADeadLetter: ClickHouse would drop its row without a word.
func TestOnePartTooOldIsADeadLetter(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.conn.Exec(t.Context(), "ALTER TABLE requests MODIFY TTL minute + INTERVAL 3 DAY"))
	old, oldEngine, oldLeg := contract(1, -80*time.Hour), engine(2, -80*time.Hour), leg(3, -80*time.Hour)
	w.topic.publish(0, old, oldEngine, oldLeg, contract(4, 0), contract(5, -60*time.Hour))
	w.loaded()
	require.EqualValues(t, 2, w.number("SELECT count() FROM requests"))
	require.EqualValues(t, 1, w.number("SELECT count() FROM replays"), "legs are kept for 90 days")
	require.EqualValues(t, 0, w.number("SELECT count() FROM waiting"))
	require.Len(t, w.topic.letters, 2)
	for i, want := range []*schema.Part{old, oldEngine} {
		require.Contains(t, w.topic.letters[i].Reason, "older than retention")
		require.Contains(t, w.topic.letters[i].Reason, "keeps 72h0m0s: to have it, raise retention.requests and retry this dead letter")
		require.Equal(t, wire.AppendPart(nil, want), w.topic.letters[i].Bytes, "nothing of it is lost")
	}
	require.Equal(t, w.topic.ends(), w.topic.done())
	require.NoError(t, w.conn.Exec(t.Context(), "ALTER TABLE requests REMOVE TTL"))
	w.topic.publish(0, old)
	w.loaded()
	require.EqualValues(t, 3, w.number("SELECT count() FROM requests"), "tried again, once retention was raised")
}
