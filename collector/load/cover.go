package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// Position gives, by partition, the offset that comes next: all before it is
// inserted and visible in requests, transfers and replays. Rollups may be
// behind it; Flush brings them up.
func (l *Loader) Position() map[int]int64 { return l.positions.get() }

// WaitFor returns when Position has reached the ends given (as
// kafka.EndOffsets gives them), or with ctx's error. While somebody waits,
// rounds follow each other without a pause.
func (l *Loader) WaitFor(ctx context.Context, ends map[int]int64) error {
	return l.positions.wait(ctx, ends)
}

// Flush makes all minutes again that were touched so far, whenever they were
// made last, and commits the offsets that this covers.
func (l *Loader) Flush(ctx context.Context) error { return l.remake(ctx, l.minutes.last(), true) }

// Sweep looks at all waiting parts now. Flush afterwards shows them in the
// rollups.
func (l *Loader) Sweep(ctx context.Context) error { return l.sweeper.sweep(ctx, true) }

// remake makes the minutes that are due again, and those that do not hold the
// inserts up to must, then says what that covers.
func (l *Loader) remake(ctx context.Context, must uint64, final bool) error {
	select {
	case l.remaking <- struct{}{}:
		defer func() { <-l.remaking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		due, through := l.minutes.due(l.now(), must, remakeChunk)
		if len(due) == 0 {
			break
		}
		var began time.Time // of the attempt that succeeds: the time of an outage is no cost
		err := l.again(ctx, "recompute", clickhouse.IsRetryable, func(ctx context.Context) error {
			began = l.now()
			return l.store.recompute(ctx, due, l.cfg.Worst)
		})
		if err != nil {
			return err
		}
		l.minutes.made(due, through, l.now(), l.now().Sub(began), l.cfg.RecomputeEvery)
	}
	l.metrics.pending.Set(float64(l.minutes.pending()))
	return l.conclude(ctx, final)
}

// conclude takes the steps that wait for covered minutes, and commits.
func (l *Loader) conclude(ctx context.Context, final bool) error {
	for _, c := range l.minutes.ready() {
		if c.after != nil {
			if err := l.again(ctx, "close waiting parts", clickhouse.IsRetryable, c.after); err != nil {
				return err
			}
		}
		for partition, m := range c.offsets {
			l.commits[partition] = m
		}
	}
	if err := l.commit(ctx); err != nil {
		return err
	}
	return l.keepPositions(ctx, final)
}

// commit tells the group. Where that fails for a while, a later commit covers
// more, and a restart only reads again.
func (l *Loader) commit(ctx context.Context) error {
	if len(l.commits) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, commitWait)
	defer cancel()
	err := l.opts.Source.Commit(limited, slices.Collect(maps.Values(l.commits))...)
	switch {
	case err == nil:
		for partition, m := range l.commits {
			l.covered[partition] = m.Offset + 1
		}
		clear(l.commits)
	case ctx.Err() == nil && !kafka.IsRetryable(err) && limited.Err() == nil:
		return fmt.Errorf("commit what is loaded: %w", err)
	default:
		l.metrics.retries.WithLabelValues("commit").Inc()
		l.log.Warn("load: commit failed; the next one covers it", "error", err)
	}
	return nil
}

func (l *Loader) keepPositions(ctx context.Context, now bool) error {
	if len(l.covered) == 0 || (!now && l.now().Sub(l.positAt) < positionsGap) {
		return nil
	}
	err := l.again(ctx, "positions", clickhouse.IsRetryable, func(ctx context.Context) error {
		return writePositions(ctx, l.opts.Conn, l.opts.Topic, l.covered, l.now().UnixNano())
	})
	if err != nil {
		return err
	}
	clear(l.covered)
	l.positAt = l.now()
	return nil
}
