package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/bench/rig"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

const (
	markerEvery  = 40 * time.Millisecond
	visibleLimit = 2 * time.Second // p99, the target
	// wholeRounds long is each half of the measurement.
	wholeRounds   = 3
	visibleWithin = 3 * time.Minute // bounds the wait for what was accepted
)

// whole path asks how much one process takes in, from OTLP to rows, and how soon
// a row can be seen.
func (b *bench) wholePath(ctx context.Context) (*Table, error) {
	t := &Table{
		ID: "P5", Title: "the whole path into embedded engines, `kvwhatif up`", First: "shape",
		Columns: []string{"accepted/s", "visible/s", "rate then sent", "p50 ms", "p99 ms", "markers", "up MiB"},
		Notes: []string{
			fmt.Sprintf("First as fast as %d senders are answered for %v: visible/s is all accepted spans over the time until all are in requests. Then, in a fresh directory, half of the lower of target and visible/s for as long, a marker every %v: from accepted to seen in requests, looked for every 25 ms.", b.senders, wholeRounds*b.seconds, markerEvery),
			"The senders and the looking share the cores. The ratio is visible/s to the target; the target of p99 is 2,000 ms.",
			"Targets: 100,000 spans a second plain, 30,000 with candidates, on 2 cores.",
		},
	}
	for _, c := range b.shapes {
		b.say("P5 %s: as fast as it goes", c.Name)
		accepted, visible, peak, err := b.flood(ctx, c.Shape)
		if err != nil {
			return nil, err
		}
		rate := min(c.rate, visible) / 2
		b.say("P5 %s: %.0f spans a second", c.Name, rate)
		markers, err := b.trickle(ctx, c.Shape, rate)
		if err != nil {
			return nil, err
		}
		q, n := markers.Quantiles(0.5, 0.99)
		t.Rows = append(t.Rows, Row{Name: c.Name, Ratio: Number(visible / c.rate), To: "target", Values: []Number{
			Number(accepted), Number(visible), Number(rate), ms(q[0]), ms(q[1]), Number(n), Number(peak) / (1 << 20),
		}})
	}
	return t, nil
}

func ms(d time.Duration) Number { return Number(d.Seconds() * 1000) }

// up is a running `kvwhatif up` on a directory of its own.
type up struct {
	*rig.Process
	at      rig.Endpoints
	conn    *clickhouse.Conn
	senders *rig.Senders
	dir     string
}

func (b *bench) startUp(ctx context.Context, s corpus.Shape) (u *up, err error) {
	u = &up{}
	defer func() {
		if err != nil {
			u.stop()
		}
	}()
	if u.dir, err = os.MkdirTemp(b.dir, "up"); err != nil {
		return nil, err
	}
	args := []string{"up", "--dir", u.dir}
	for _, flag := range []string{"--grpc", "--http", "--address", "--listen"} {
		args = append(args, flag, "127.0.0.1:0")
	}
	if u.Process, u.at, err = rig.LaunchStage(ctx, b.dir, b.kvwhatif, nil, args...); err != nil {
		return nil, err
	}
	if u.conn, err = clickhouse.Open(ctx, u.at.ClickHouse); err != nil {
		return nil, err
	}
	r, err := b.requests(s, b.perReq)
	if err != nil {
		return nil, err
	}
	u.senders, err = rig.NewSenders(r, b.senders, u.at.GRPC)
	return u, err
}

func (u *up) stop() {
	if u.senders != nil {
		u.senders.Close()
	}
	if u.conn != nil {
		u.conn.Close()
	}
	if u.Process != nil {
		u.Stop()
	}
	os.RemoveAll(u.dir)
}

// flood sends as fast as it is answered, and waits until all is visible.
func (b *bench) flood(ctx context.Context, s corpus.Shape) (accepted, visible float64, peak int64, err error) {
	u, err := b.startUp(ctx, s)
	if err != nil {
		return 0, 0, 0, err
	}
	defer u.stop()
	began := time.Now()
	sent, err := u.senders.For(ctx, wholeRounds*b.seconds)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("%w (up says: %s)", err, u.Said())
	}
	// Identifiers are unique, so that count() is that of requests before merges
	// too.
	err = rig.Until(ctx, visibleWithin, "all that was accepted to be visible", func() (bool, error) {
		var n uint64
		if err := u.conn.QueryRow(ctx, "SELECT count() FROM requests").Scan(&n); err != nil && !clickhouse.IsRetryable(err) {
			return false, err
		}
		return int64(n) >= sent.Spans, nil
	})
	if err != nil {
		return 0, 0, 0, err
	}
	peak, err = rig.PeakMemory(u.Pid())
	return sent.Rate(), float64(sent.Spans) / time.Since(began).Seconds(), peak, err
}

// trickle sends at a rate, and measures when markers are seen.
func (b *bench) trickle(ctx context.Context, s corpus.Shape, rate float64) (*rig.Markers, error) {
	u, err := b.startUp(ctx, s)
	if err != nil {
		return nil, err
	}
	defer u.stop()
	markers := rig.NewMarkers(u.senders.Requests, markerEvery)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	group, _ := errgroup.WithContext(ctx)
	group.Go(func() error { return markers.Watch(watching, u.conn) })
	group.Go(func() error {
		defer stop()
		if _, err := u.senders.Paced(ctx, rate, wholeRounds*b.seconds, markers.Accepted); err != nil {
			return err
		}
		return rig.Until(ctx, visibleWithin, "the last markers", func() (bool, error) { return markers.Waiting() == 0, nil })
	})
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("%w (up says: %s)", err, u.Said())
	}
	if _, n := markers.Quantiles(); n == 0 {
		return nil, errors.New("no marker was sent")
	}
	return markers, nil
}
