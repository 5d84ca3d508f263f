package load

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// rounds takes in what there is, inserts it, and begins again: small rounds
// when the topic is drained, large ones when load is behind.
func (l *Loader) rounds(ctx context.Context, from <-chan kafka.Message) error {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-from:
			l.takeIn(m)
		}
		l.gather(ctx, from, last.Add(l.pace.between()))
		l.makeRoom(ctx)
		if err := l.round(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		last = time.Now()
	}
}

func (l *Loader) takeIn(m kafka.Message) {
	l.batch.message(m)
	l.ahead.Release(held(m))
}

// gather takes in messages until the round is full, or until it may begin and
// none is there. Where somebody waits for a position it may begin at once.
func (l *Loader) gather(ctx context.Context, from <-chan kafka.Message, begin time.Time) {
	for !l.batch.full(l.pace.mostRows()) {
		left := time.Until(begin)
		if l.positions.waiters.Load() > 0 {
			left = 0
		}
		select {
		case m := <-from:
			l.takeIn(m)
			continue
		default:
		}
		if left <= 0 {
			return
		}
		select {
		case m := <-from:
			l.takeIn(m)
		case <-ctx.Done():
			return
		case <-time.After(min(left, lookAgain)):
		}
	}
}

// lookAgain is how long a round that lingers does not see that somebody waits.
const lookAgain = 50 * time.Millisecond

// mostPending is how many minutes may wait to be made again before load reads no
// further: what it knows of them is in memory.
const mostPending = 20_000

// makeRoom waits while too many minutes wait.
func (l *Loader) makeRoom(ctx context.Context) {
	for said := false; l.minutes.pending() > mostPending && ctx.Err() == nil; said = true {
		if !said {
			l.log.Warn("load: reading waits for rollups: the parts that come are spread over too many minutes", "minutes", mostPending)
		}
		select {
		case <-ctx.Done():
		case <-time.After(remakeTick):
		}
	}
}

// round inserts the batch and notes what is then to be covered. Its order is
// the promise: rows and dead letters are safe before anything says so.
func (l *Loader) round(ctx context.Context) error {
	b := l.batch
	b.settle()
	err := l.insert(ctx, b.blocks, len(b.taken) > 1)
	if errors.Is(err, errTooMuchMemory) {
		return l.halves(ctx)
	}
	if err != nil {
		return err
	}
	if err := l.bury(ctx, b.dead); err != nil {
		return err
	}
	l.minutes.touch(cover{minutes: slices.Collect(maps.Keys(b.minutes)), offsets: b.offsets})
	next := make(map[int]int64, len(b.offsets))
	for partition, m := range b.offsets {
		next[partition] = m.Offset + 1
		l.metrics.next.WithLabelValues(partitionLabel(partition)).Set(float64(m.Offset + 1))
		l.metrics.lag.WithLabelValues(partitionLabel(partition)).Set(float64(max(0, m.HighWaterMark-m.Offset-1)))
	}
	l.positions.advance(next)
	b.reset()
	return nil
}

// halves takes the messages of the round again, in two rounds. What of them was
// inserted already merges into the same rows.
func (l *Loader) halves(ctx context.Context) error {
	messages := slices.Clone(l.batch.taken)
	l.batch.reset()
	for _, half := range [][]kafka.Message{messages[:len(messages)/2], messages[len(messages)/2:]} {
		for _, m := range half {
			l.batch.message(m)
		}
		if err := l.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// errTooMuchMemory says that ClickHouse keeps refusing an insert for want of
// memory, and that the round can be taken in halves.
var errTooMuchMemory = errors.New("ClickHouse has not the memory for an insert of this size")

// memoryTries is how often an insert is tried as it is.
const memoryTries = 3

// insert sends all blocks, each until it is in.
func (l *Loader) insert(ctx context.Context, b *blocks, divisible bool) error {
	for _, full := range b.filled {
		refused := 0
		retryable := func(err error) bool {
			code := l.pace.refused(err)
			if code == codeMemory {
				refused++
			}
			return clickhouse.IsRetryable(err) && !(divisible && refused == memoryTries)
		}
		began := time.Now()
		err := l.again(ctx, "insert", retryable, func(ctx context.Context) error {
			began = time.Now()
			return l.store.insert(ctx, full)
		})
		if refused == memoryTries && divisible && err != nil && ctx.Err() == nil {
			return errors.Join(errTooMuchMemory, err)
		}
		if err != nil {
			return err
		}
		l.pace.inserted(time.Since(began))
	}
	return nil
}

// bury makes dead letters safe.
func (l *Loader) bury(ctx context.Context, letters []wire.DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	messages := make([]kafka.Message, len(letters))
	for i := range letters {
		messages[i].Value = wire.AppendDeadLetter(nil, &letters[i])
	}
	first := &letters[0]
	l.log.Warn("load: parts that can not be read go to the dead letters", "parts", len(letters), "topic", schema.TopicDead,
		"partition", first.Partition, "offset", first.Offset, "index", first.Index, "reason", first.Reason)
	return l.again(ctx, "dead letters", kafka.IsRetryable, func(ctx context.Context) error {
		return l.opts.Dead.Produce(ctx, schema.TopicDead, messages...)
	})
}
