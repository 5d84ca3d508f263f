package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// moment is a kill: of what, and after how many accepted batches.
type moment struct {
	database bool
	after    int
}

// moments draws when to kill what: the program, its database, the program again,
// each in a stretch of its own so that something is sent between.
func moments(r *rand.Rand, batches int) (out []moment) {
	of := []bool{false, true, false}
	kills := len(of) * killRounds
	for i := range kills {
		stretch := batches / (kills + 1)
		out = append(out, moment{of[i%len(of)], i*stretch + stretch/4 + r.IntN(stretch/2)})
	}
	return out
}

// TestKilled kills the program and its database in the middle of traffic, at
// random moments. What was accepted is then in the tables once, rollups included.
func TestKilled(t *testing.T) {
	requireEngine(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	up := startUp(t, dir, nil)
	s := newSender(t, up.at.GRPC, killSpans)
	due := make(chan moment)
	next := moments(rand.New(rand.NewPCG(seed, 0)), killSpans/batchSpans)
	at := make(chan int, killSpans/batchSpans) // room for all: the sender never waits
	s.step = func(accepted int) { at <- accepted }
	go func() {
		defer close(due)
		for accepted := range at {
			if len(next) > 0 && accepted >= next[0].after {
				due <- next[0]
				next = next[1:]
			}
		}
	}()
	sent := make(chan error, 1)
	go func() { sent <- s.send(t.Context(), 0, killSpans); close(at) }()
	kills := 0
	for m := range due {
		kills++
		resent := s.resent.Load()
		if m.database {
			t.Logf("kill the database after %d batches: %d in flight", s.accepted.Load(), s.inFlight.Load())
			up.killDatabase(t)
			continue
		}
		t.Logf("kill the program after %d batches: %d in flight", s.accepted.Load(), s.inFlight.Load())
		up.kill(t)
		up = startUp(t, dir, nil, "--grpc", up.at.GRPC)
		t.Logf("it listens again; %d batches were sent again so far", s.resent.Load()-resent)
	}
	require.NoError(t, <-sent)
	require.Equal(t, 3*killRounds, kills)
	require.Positive(t, s.resent.Load(), "no batch was under way at a kill")
	t.Logf("%d batches sent again in all", s.resent.Load())
	checkOnce(t, up, killSpans)
	require.True(t, up.running())
	up.stop(t)
}

// checkOnce wants each of the requests below n once, with its one span, and the
// rollups of that.
func checkOnce(t *testing.T, up *process, n int) {
	t.Helper()
	d := openTables(t, up.at.ClickHouse)
	d.eventually(n, "SELECT count() FROM requests FINAL")
	require.EqualValues(t, n, d.number("SELECT uniqExact(request_id) FROM requests FINAL WHERE length(spans) = 1 AND length(contents) = 1"))
	require.EqualValues(t, (n+1)/2, d.number("SELECT count() FROM transfers FINAL"))
	d.slicesEqualARecount()
	require.EqualValues(t, n, d.number("SELECT sum(n) FROM slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00')"))
}
