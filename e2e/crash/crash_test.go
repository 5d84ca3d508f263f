package crash

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// requestRate is how many requests a second are sent, of 2.4 spans each; two cores
// carry the rest of a run beside it.
const requestRate = 200

// fromEnvironment is a number that the environment may set.
func fromEnvironment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(value, 10, 64)
	require.NoError(t, err, name)
	return n
}

// newStory has requests of the last hours, that end before now.
func newStory(t *testing.T) *story {
	t.Helper()
	seed := fromEnvironment(t, "KVWHATIF_CRASH_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed %d", seed)
	return &story{seed: seed, base: time.Now().Add(-6 * time.Hour).Truncate(time.Minute)}
}

// TestKills kills one process of each kind, in a random order: the collector, a
// loader, the broker, the database and the process that holds it. With
// KVWHATIF_CRASH_KILLS it kills so many, at random, and either loader.
func TestKills(t *testing.T) {
	p := plan{kills: 5, inTurn: true, least: 500 * time.Millisecond, gap: 2 * time.Second}
	n := int(fromEnvironment(t, "KVWHATIF_CRASH_KILLS", 0))
	if n == 0 {
		t.Parallel() // most of its time it waits for rebalances
	}
	r := startStages(t, places{}, nil)
	if n == 0 {
		r.spare("loader 2")
	} else {
		p = plan{kills: n, least: time.Second, gap: 8 * time.Second}
	}
	b := newBench(t, r, newStory(t))
	b.kill(t, p)
	b.requireNothingLost(t, p)
	b.requireGenFilterMatters(t)
}

// TestKillsOfUp kills `kvwhatif up` itself, with its embedded broker, and its
// database.
func TestKillsOfUp(t *testing.T) {
	p := plan{kills: 3, inTurn: true, least: 500 * time.Millisecond, gap: 2 * time.Second}
	if n := fromEnvironment(t, "KVWHATIF_CRASH_KILLS", 0); n > 0 {
		p = plan{kills: int(n+4) / 5, least: time.Second, gap: 4 * time.Second}
	} else {
		t.Parallel()
	}
	r := startUp(t, "")
	b := newBench(t, r, newStory(t))
	b.kill(t, p)
	b.requireNothingLost(t, p)
}

// bench is a rig with traffic.
type bench struct {
	rig    *rig
	sender *sender
	killer *killer
	began  time.Time
	report report
}

func newBench(t *testing.T, r *rig, y *story) *bench {
	t.Helper()
	s := newSender(y, requestRate)
	r.doors(t, s)
	return &bench{rig: r, sender: s, began: time.Now(), report: report{Seed: y.seed}}
}

// during sends while something goes on, until after its end, and waits until load
// has committed all of it.
func (b *bench) during(t *testing.T, goesOn func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop, sent := make(chan struct{}), make(chan error, 1)
	go func() { sent <- b.sender.run(ctx, stop); cancel() }()
	err := goesOn(ctx)
	close(stop)
	t.Logf("%5.1f s: sends what is left", time.Since(b.began).Seconds())
	if sendErr := <-sent; err == nil || ctx.Err() != nil {
		require.NoError(t, sendErr)
	}
	require.NoError(t, err)
	t.Logf("%5.1f s: all is accepted", time.Since(b.began).Seconds())
	b.drain(t)
	t.Logf("%5.1f s: load has committed all", time.Since(b.began).Seconds())
	require.NoError(t, b.rig.fell())
}

// drain waits until load has committed all. That it commits no more for long is a
// defect: a lag that stays has people look for what is lost.
func (b *bench) drain(t *testing.T) {
	t.Helper()
	last, since := "", time.Now()
	for {
		err := b.rig.drained(t.Context())
		if err == nil {
			return
		}
		if said := err.Error(); said != last {
			last, since = said, time.Now()
		}
		if time.Since(since) > patience {
			require.FailNow(t, last, "and that stays so: %s", b.rig.where(t.Context()))
		}
		time.Sleep(10 * tick)
	}
}

// kill kills as planned during traffic.
func (b *bench) kill(t *testing.T, p plan) {
	t.Helper()
	b.killer = newKiller(b.rig, b.sender, p, t.Logf)
	b.during(t, func(ctx context.Context) error {
		if err := b.killer.run(ctx); err != nil {
			return err
		}
		before := b.sender.count()
		return b.killer.await(ctx, func() error { return b.sender.since(before, 100*batchItems) })
	})
	b.killer.look()
	for _, n := range b.killer.read {
		b.report.Read += int(n)
	}
	b.report.Kills, b.report.Resent, b.report.Doubled = b.killer.kills, b.sender.failed.Load(), b.sender.doubled.Load()
	var err error
	b.report.Parts, err = b.killer.settle(t.Context())
	require.NoError(t, err)
	b.report.sum()
}

// findings compares the tables with what was sent, until they are enough or the time
// is up.
func (b *bench) findings(t *testing.T, within time.Duration, enough func(findings) bool) findings {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), b.rig.reader)
	require.NoError(t, err)
	defer conn.Close()
	want := newRecount(b.sender.story, b.sender.accepted)
	b.report.Accepted, b.report.Requests, b.report.Dead = want.spans, len(want.rows), len(want.poison)
	for deadline := time.Now().Add(within); ; {
		f, err := want.check(t.Context(), conn)
		require.NoError(t, err)
		require.NoError(t, want.checkDead(t.Context(), b.rig.kafka, f))
		if enough(f) || time.Now().After(deadline) {
			return f
		}
		time.Sleep(500 * time.Millisecond) // a sweep and its rollups may be under way
	}
}

// none is what a good run finds.
func none(f findings) bool { return len(f) == 0 }

// requireNothingLost is the end of a run.
func (b *bench) requireNothingLost(t *testing.T, p plan) {
	t.Helper()
	f := b.findings(t, patience, none)
	for _, x := range f {
		b.report.Findings += x.count
	}
	b.report.Seconds = time.Since(b.began).Seconds()
	t.Log(b.report.table())
	b.report.write(t)
	require.NoError(t, f.err())
	require.Len(t, b.report.Kills, p.kills)
	require.NoError(t, b.report.shown())
}
