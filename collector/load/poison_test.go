package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// framed appends a frame of any bytes to a message.
func framed(msg, frame []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(msg, 2, protowire.BytesType), frame)
}

func TestPoisonGoesToTheDeadLettersAndTheRestGoesOn(t *testing.T) {
	w := newWorld(t)
	noTrace, early, negative, infinite, conflict, longInt := contract(3, 0), contract(4, 0), contract(5, 0), contract(6, 0), contract(1, 0), contract(7, 0)
	noTrace.Trace = schema.TraceID{}
	early.StartNanos = 0
	negative.Decision.TokensPrompt = count(-5)
	infinite.Observed.TTFT = seconds(math.Inf(1))
	conflict.Observed.TTFT = seconds(9)
	longInt.Decision.Candidates[0].TokensFetched = 1 << 40
	unlikely := leg(8, 0)
	unlikely.Replay.Inclusion = 0
	msg := wire.AppendBatch(nil, contract(1, 0), noTrace, early, negative, infinite, conflict, longInt, unlikely)
	msg = framed(msg, []byte("\x08\xff"))
	msg = framed(msg, wire.AppendPart(nil, contract(2, 0)))
	w.topic.raw(0, append(msg, 0x12, 0xff))          // ends in the middle of a frame
	w.topic.raw(0, []byte("not a message of ours"))  // index −1
	w.topic.raw(0, append([]byte{8, 2}, msg[2:]...)) // of a version to come
	w.topic.raw(0, nil)
	w.topic.publish(0, contract(9, 0))
	w.loaded()
	require.EqualValues(t, 3, w.number("SELECT count() FROM requests FINAL"))
	require.Equal(t, w.topic.ends(), w.topic.done(), "no partition is held up")

	type letter struct {
		offset, index int64
		code, reason  string
	}
	wants := []letter{{0, 1, deadInvalid, "no trace id"}, {0, 2, deadInvalid, "between 1970 and 2106"}, {0, 3, deadInvalid, "tokens.prompt (-5)"},
		{0, 4, deadInvalid, "ttft (+Inf s)"}, {0, 5, deadConflict, "came before with other content"}, {0, 6, deadInvalid, "candidate 0 (1099511627776)"},
		{0, 7, deadInvalid, "inclusion (0)"}, {0, 8, deadDecode, "decode part"}, {0, 10, deadFraming, "at byte"}, {1, -1, deadVersion, "version"},
		{2, -1, deadVersion, "version 2"}, {3, -1, deadVersion, "version"}}
	require.Len(t, w.topic.letters, len(wants))
	for i, want := range wants {
		got := w.topic.letters[i]
		require.Equal(t, want, letter{got.Offset, got.Index, got.Code, want.reason}, got.Reason)
		require.Contains(t, got.Reason, want.reason)
		require.Equal(t, wire.SourceKafka, got.Source)
		require.False(t, got.Cut())
	}
	var again schema.Part
	require.NoError(t, wire.DecodePart(w.topic.letters[2].Bytes, &again), "a letter holds the part, to be tried again")
	require.EqualValues(t, -5, again.Decision.TokensPrompt.V)
}

func TestConflictThatMemoryNoLongerHoldsIsCounted(t *testing.T) {
	w := newWorld(t)
	other := contract(1, 0)
	other.Observed.TTFT = seconds(9)
	w.topic.publish(0, contract(1, 0))
	w.loaded()
	w.topic.publish(0, other) // read by another process
	w.loaded()
	require.Empty(t, w.topic.letters)
	require.EqualValues(t, 1, w.number("SELECT sum(conflicts) FROM "+currentSlices))
}

// flaky is a connection that fails as often as it is told.
type flaky struct {
	driver.Conn
	fails int
	err   error
	lie   bool // answer well, write nothing
}

func (f *flaky) InsertFormat(ctx context.Context, format, query string, data io.Reader) error {
	if f.fails > 0 {
		f.fails--
		if f.lie {
			return nil
		}
		return f.err
	}
	return f.Conn.InsertFormat(ctx, format, query, data)
}

func TestInsertIsTriedUntilItIsIn(t *testing.T) {
	for name, f := range map[string]*flaky{
		"away":                {fails: 2, err: io.ErrUnexpectedEOF},
		"too many parts":      {fails: 2, err: &ch.Exception{Code: 252}},
		"answered, not there": {fails: 1, lie: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f.Conn = w.conn
			l := w.loader(w.topic.member())
			l.store.conn = f
			l.batch.message(kafka.Message{Value: wire.AppendBatch(nil, contract(1, 0))})
			require.NoError(t, l.round(t.Context()))
			require.Zero(t, f.fails)
			require.EqualValues(t, 1, w.number("SELECT count() FROM requests"))
		})
	}
}

func TestRunStopsLoudlyAtWhatWaitingDoesNotMend(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no such table": {&ch.Exception{Code: 60, Message: "Unknown table"}, "has the schema been applied?"},
		"no right":      {&ch.Exception{Code: 497, Message: "Not enough privileges"}, "may not do this"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.topic.publish(0, contract(1, 0))
			l := w.loader(w.topic.member())
			l.store.conn = &flaky{Conn: w.conn, fails: 1, err: c.err}
			require.ErrorContains(t, l.Run(t.Context()), c.want)
			require.Empty(t, w.topic.done())
			require.Empty(t, l.Position())
		})
	}
}

// A server that starts, ends or has its passwords changed refuses for a while
// those whom it had taken.
func TestRunWaitsWhereItsPasswordWasTakenBefore(t *testing.T) {
	w := newWorld(t)
	w.topic.publish(0, contract(1, 0))
	l := w.loader(w.topic.member())
	refusing := &flaky{Conn: w.conn, fails: 2, err: &ch.Exception{Code: 516, Message: "Authentication failed"}}
	l.store.conn = refusing
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	w.settled(l)
	cancel()
	require.NoError(t, <-ended)
	require.Zero(t, refusing.fails)
}

func TestNothingIsCommittedBeforeDeadLettersAreSafe(t *testing.T) {
	w := newWorld(t)
	w.topic.raw(0, []byte("x"))
	failed := make(chan struct{}, 100)
	w.topic.fail = func() error {
		failed <- struct{}{}
		return errors.New("broker away")
	}
	l, stop := w.run()
	<-failed
	<-failed
	require.NoError(t, l.Flush(t.Context()))
	require.Empty(t, w.topic.done())
	w.topic.mu.Lock()
	w.topic.fail = nil
	w.topic.mu.Unlock()
	w.settled(l)
	stop()
	require.Len(t, w.topic.letters, 1)
	require.Equal(t, w.topic.ends(), w.topic.done())
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	p := newPositions()
	p.advance(map[int]int64{0: 3})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.wait(ctx, map[int]int64{0: 3, 1: 0}))
	require.ErrorIs(t, p.wait(ctx, map[int]int64{0: 5, 1: 2}), context.Canceled)
	require.ErrorContains(t, p.wait(ctx, map[int]int64{0: 5, 1: 2}), "4 more messages")
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, Default().Validate())
	for want, change := range map[string]func(*Config){
		"load.anchor":                   func(c *Config) { c.Anchor = "span" },
		"load.max_rows: 0":              func(c *Config) { c.MaxRows = 0 },
		"load.worst: 256":               func(c *Config) { c.Worst = 256 },
		"load.sweep_every":              func(c *Config) { c.SweepEvery = 0 },
		"must not be below load.trace":  func(c *Config) { c.OrphanAfter = c.TraceJoinAfter - 1 },
		"load.max_bytes: 5":             func(c *Config) { c.MaxBytes = 5 },
		"load.recompute_every: -1ns is": func(c *Config) { c.RecomputeEvery = -1 },
	} {
		c := Default()
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
	_, err := New(Default(), Options{})
	require.ErrorContains(t, err, "needs a ClickHouse connection")
}

func TestMetricsTwiceInOneProcess(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 {
		m, err := newMetrics(reg)
		require.NoError(t, err)
		m.dead.WithLabelValues(deadDecode).Inc()
		m.parts[schema.KindEngine].Inc()
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), "dead_letters_total") {
			for _, m := range f.GetMetric() { // one a reason, from the start
				sum += m.GetCounter().GetValue()
			}
		}
	}
	require.EqualValues(t, 2, sum)
}

func TestBlockRefusesUnequalColumns(t *testing.T) {
	b := newShape(shapeReplay)
	b.add(&row{part: leg(1, 0)})
	b.columns[3].add(&row{part: leg(1, 0)})
	_, err := b.encode()
	require.ErrorContains(t, err, "has 2 rows, expected 1")
	b.reset()
	b.add(&row{part: leg(1, 0)})
	_, err = b.encode()
	require.NoError(t, err)
}

// FuzzMessage: whatever is in a message, a batch takes it, counts it as parts
// or dead letters, and what it made of it can be sent.
func FuzzMessage(f *testing.F) {
	f.Add(wire.AppendBatch(nil, contract(1, 0), engine(1, 0), transfer(1, 0, 0), leg(1, 0)))
	f.Add([]byte{8, 2})
	f.Add([]byte("x"))
	m, err := newMetrics(nil)
	require.NoError(f, err)
	cfg := Default()
	f.Fuzz(func(t *testing.T, msg []byte) {
		b := newBatch(cfg, time.Now, m)
		b.message(kafka.Message{Value: bytes.Clone(msg)})
		b.settle()
		rows := 0
		for _, open := range b.blocks.filled {
			body, err := open.encode()
			require.NoError(t, err)
			require.NotEmpty(t, body)
			rows += open.rows
		}
		require.False(t, b.parts == 0 && len(b.dead) == 0 && !bytes.Equal(msg, []byte{8, 1}), "neither parts nor a dead letter")
	})
}

var _ Source = (*kafka.Reader)(nil)
var _ Producer = (*kafka.Writer)(nil)
var _ driver.Conn = (*clickhouse.Conn)(nil)
