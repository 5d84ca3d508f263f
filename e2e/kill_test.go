package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// moments draws after how many accepted batches each of n kills comes: each in a
// stretch of its own, so that something is sent between.
func moments(r *rand.Rand, batches, n int) (after []int) {
	for i := range n {
		stretch := batches / (n + 1)
		after = append(after, i*stretch+stretch/4+r.IntN(stretch/2))
	}
	return after
}

// sendAndKill sends spans and calls the kills in turn, each at a random moment of
// its stretch, while sending goes on.
func (s *sender) sendAndKill(t *testing.T, spans int, kills ...func()) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	after := moments(rand.New(rand.NewPCG(seed, 0)), spans/batchSpans, len(kills))
	reached := make(chan int, spans/batchSpans) // room for all: the sender never waits
	s.step = func(accepted int) { reached <- accepted }
	sent := make(chan error, 1)
	go func() { sent <- s.send(t.Context(), 0, spans); close(reached) }()
	next := 0
	for accepted := range reached {
		if next < len(kills) && accepted >= after[next] {
			t.Logf("kill %d after %d of %d batches, %d in flight, %d sent again so far", next+1, s.accepted.Load(), spans/batchSpans, s.inFlight.Load(), s.resent.Load())
			kills[next]()
			next++
		}
	}
	require.NoError(t, <-sent)
	require.Equal(t, len(kills), next)
	require.Positive(t, s.resent.Load(), "no batch was under way at a kill")
	t.Logf("%d batches were sent again in all", s.resent.Load())
}

// TestKilled kills the program, its database and the program again in the middle of
// traffic. What was accepted is then in the tables once, rollups included.
func TestKilled(t *testing.T) {
	requireEngine(t)
	dir := t.TempDir()
	up := startUp(t, dir, nil)
	program := func() {
		up.kill(t)
		up = startUp(t, dir, nil, "--grpc", up.at.GRPC)
	}
	database := func() { up.killDatabase(t) }
	var kills []func()
	for range killRounds {
		kills = append(kills, program, database, program)
	}
	newSender(t, up.at.GRPC, killSpans).sendAndKill(t, killSpans, kills...)
	checkOnce(t, openTables(t, up.at.ClickHouse), killSpans)
	require.True(t, up.running())
	up.stop(t)
}

// TestStagesKilled kills, in the middle of traffic, one of two loaders, Apache
// Kafka, the collector and ClickHouse, each a process of its own.
func TestStagesKilled(t *testing.T) {
	requireEngine(t)
	kafkatest.Shared(t) // skips or fails where there is no Java
	broker, err := kafkatest.Start(t.TempDir(), "")
	require.NoError(t, err)
	t.Cleanup(broker.Kill)
	server, err := clickhouse.StartEmbedded(context.Background(), clickhouse.EmbeddedConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	collect := start(t, nil, "collect", "--kafka", broker.Addr(), "--grpc", "127.0.0.1:0", "--http", "-")
	load := func() *process {
		return start(t, nil, "load", "--kafka", broker.Addr(), "--clickhouse", server.DSN())
	}
	first, second := load(), load()
	var kills []func()
	for range killRounds {
		kills = append(kills,
			func() { first.kill(t); first = load() },
			func() { broker.Kill(); require.NoError(t, broker.Restart()) },
			func() {
				collect.kill(t)
				collect = start(t, nil, "collect", "--kafka", broker.Addr(), "--grpc", collect.at.GRPC, "--http", "-")
			},
			func() { killServer(t, server) })
	}
	newSender(t, collect.at.GRPC, killSpans).sendAndKill(t, killSpans, kills...)
	checkOnce(t, openTables(t, server.ReaderDSN()), killSpans)
	for _, p := range []*process{first, second, collect} {
		p.stop(t)
	}
}

// killServer ends a ClickHouse that this test has started, and waits until the next
// one answers: a loader that starts in between says that it is away, and ends.
func killServer(t *testing.T, server *clickhouse.Embedded) {
	t.Helper()
	before := server.PID()
	require.NotZero(t, before)
	require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
	eventually(t, func() error {
		if pid := server.PID(); pid == 0 || pid == before {
			return errors.New("ClickHouse is between two starts")
		}
		return nil
	})
}

// checkOnce wants each of the requests below n once, with its one span, and the
// rollups of that.
func checkOnce(t *testing.T, d *tables, n int) {
	t.Helper()
	d.eventually(n, "SELECT count() FROM requests FINAL")
	require.EqualValues(t, n, d.number("SELECT uniqExact(request_id) FROM requests FINAL WHERE length(spans) = 1 AND length(contents) = 1"))
	d.eventually((n+1)/2, "SELECT count() FROM transfers FINAL") // inserted after the requests
	d.slicesEqualARecount()
	require.EqualValues(t, n, d.number("SELECT sum(n) FROM slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00')"))
}
