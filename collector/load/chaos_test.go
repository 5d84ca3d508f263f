package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/schema"
)

// dying is a connection that dies at its n-th write, before or after the
// write, and is dead from then on: what a kill at that moment leaves behind.
type dying struct {
	driver.Conn
	left  atomic.Int64
	after bool
}

var errKilled = permanent{errors.New("killed")}

func (d *dying) write(do func() error) error {
	switch n := d.left.Add(-1); {
	case n > 0:
		return do()
	case n == 0 && d.after:
		_ = do()
	}
	return errKilled
}

func (d *dying) InsertFormat(ctx context.Context, format, query string, data io.Reader) error {
	return d.write(func() error { return d.Conn.InsertFormat(ctx, format, query, data) })
}

func (d *dying) Exec(ctx context.Context, query string, args ...any) error {
	return d.write(func() error { return d.Conn.Exec(ctx, query, args...) })
}

// TestKilledAtRandomWrites kills load at every kind of moment while parts come
// in any order and more than once, and compares the tables with what a plain
// count of the parts says.
func TestKilledAtRandomWrites(t *testing.T) {
	const requests, kills = 24, 8
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	w.cfg.RecomputeEvery = 0
	var parts []*schema.Part
	for n := range uint64(requests) {
		at := time.Duration(n) * 7 * time.Second
		for range 1 + r.IntN(2) {
			parts = append(parts, contract(n, at), engine(n, at), transfer(n, 0, at), transfer(n, 1, at), leg(n, at))
		}
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	died := 0
	for kill := range kills {
		for range len(parts) / kills * (kill + 1) / kills { // some new ones each time
			if len(parts) > 0 {
				w.topic.publish(r.IntN(3), parts[0])
				parts = parts[1:]
			}
		}
		conn := &dying{Conn: w.conn, after: r.IntN(2) == 0}
		conn.left.Store(1 + r.Int64N(10))
		l := w.loader(w.topic.member())
		l.opts.Conn, l.store.conn = conn, conn
		if err := errors.Join(runToTheEnd(t.Context(), l, w.topic.ends())...); err != nil {
			require.ErrorIs(t, err, errKilled)
			died++
		}
	}
	for _, p := range parts {
		w.topic.publish(r.IntN(3), p)
	}
	w.loaded()
	w.loaded() // transfers hang on engines' spans that joined just now
	t.Logf("%d of %d loads were killed; rows read again: %v", died, kills, w.number("SELECT (SELECT count() FROM requests) - (SELECT count() FROM requests FINAL)"))
	require.Positive(t, died)
	require.EqualValues(t, requests, w.number("SELECT count() FROM requests FINAL WHERE kind = 'contract' AND length(spans) = 4 AND arraySum(mapValues(moved)) = 2000"))
	require.EqualValues(t, requests, w.number("SELECT count() FROM requests FINAL"))
	require.EqualValues(t, requests, w.number("SELECT count() FROM replays FINAL"))
	require.EqualValues(t, 3*requests, w.number("SELECT count() FROM transfers FINAL"))
	require.EqualValues(t, 3*requests, w.number("SELECT count() FROM transfers FINAL WHERE joined = 1"))
	require.EqualValues(t, 0, w.number("SELECT count() FROM waiting FINAL"))
	require.Equal(t, w.topic.ends(), w.topic.done())
	w.slicesEqualARecount()
	require.Equal(t, expectedMinutes(requests), w.lines("SELECT toUnixTimestamp(minute), sum(n) FROM "+currentSlices+" GROUP BY minute ORDER BY minute"))
}

// runToTheEnd runs a load until all is settled or it dies, and gives the errors
// of its steps but those of its being stopped.
func runToTheEnd(ctx context.Context, l *Loader, ends map[int]int64) (errs []error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- l.Run(ctx)
	}()
	for _, step := range []func() error{
		func() error { return l.WaitFor(ctx, ends) }, func() error { return l.Sweep(ctx) }, func() error { return l.Flush(ctx) },
	} {
		if err := step(); err != nil && ctx.Err() == nil {
			errs = append(errs, err)
			break
		}
	}
	cancel()
	return append(errs, <-done)
}

func expectedMinutes(requests int) string {
	counts := map[int64]int{}
	var order []int64
	for n := range requests {
		m := base.Add(time.Duration(n)*7*time.Second).Unix() / 60 * 60
		if counts[m]++; counts[m] == 1 {
			order = append(order, m)
		}
	}
	var b strings.Builder
	for _, m := range order {
		fmt.Fprintf(&b, "%d\t%d\n", m, counts[m])
	}
	return b.String()
}
