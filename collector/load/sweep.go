package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

const (
	sweepPage = 4096             // parts looked at by one query
	young     = 10 * time.Minute // parts that came within it are looked at by every sweep
	oldEvery  = 10 * time.Minute // the others this often
)

// sweeper joins parts that wait to their requests, by queries. It covers what
// came early, late, through another partition or another process, and may run
// in several processes at once.
type sweeper struct {
	l    *Loader
	mu   sync.Mutex // one sweep at a time
	full time.Time  // when all were looked at last

	taken   sync.Mutex
	joining map[schema.RowID]struct{} // joined, and not yet closed in the table
}

func newSweeper(l *Loader) *sweeper {
	return &sweeper{l: l, joining: map[schema.RowID]struct{}{}}
}

// tick is one periodic sweep.
func (s *sweeper) tick(ctx context.Context) error {
	return s.sweep(ctx, false)
}

// sweep looks at the young parts, or at all where that is asked for or due.
func (s *sweeper) sweep(ctx context.Context, all bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.l.now()
	since := now.Add(-young)
	if all = all || now.Sub(s.full) >= oldEvery; all {
		since = time.Unix(0, 0)
	}
	after := place{}
	for {
		var parts []*waitingPart
		err := s.l.again(ctx, "sweep", clickhouse.IsRetryable, func(ctx context.Context) (err error) {
			parts, err = s.l.store.waiting(ctx, after, since, sweepPage)
			return err
		})
		if err != nil || len(parts) == 0 {
			if err == nil && all {
				s.full = now
			}
			return err
		}
		if err := s.page(ctx, s.untaken(parts), now); err != nil {
			return err
		}
		after = parts[len(parts)-1].place
	}
}

// page joins what it can of some parts, inserts that, and leaves the closing
// of them for when their minutes are made again.
func (s *sweeper) page(ctx context.Context, parts []*waitingPart, now time.Time) error {
	var rows []*found
	err := s.l.again(ctx, "sweep", clickhouse.IsRetryable, func(ctx context.Context) (err error) {
		rows, err = s.l.store.find(ctx, parts)
		return err
	})
	if err != nil {
		return err
	}
	b := newBatch(Config{}, s.l.now, s.l.metrics)
	closed := s.join(b, parts, newLookup(rows), now)
	if len(closed) == 0 {
		return nil
	}
	if err := s.l.insert(ctx, b.blocks); err != nil {
		return err
	}
	s.take(closed)
	s.l.minutes.touch(cover{minutes: slices.Collect(maps.Keys(b.minutes)), after: func(ctx context.Context) error { return s.close(ctx, closed) }})
	return nil
}

// join adds the parts that have a row now, or have waited too long, to the
// batch, and gives those. Engines' spans come first: transfers may hang on them.
func (s *sweeper) join(b *batch, parts []*waitingPart, rows *lookup, now time.Time) (closed []*waitingPart) {
	slices.SortStableFunc(parts, func(x, y *waitingPart) int { return int(x.part.Kind) - int(y.part.Kind) })
	for _, w := range parts {
		waited := now.Sub(w.arrived)
		j := &joining{part: w.part, content: uint32(xxhash.Sum64(w.frame))}
		if f := rows.find(&w.part, waited >= s.l.cfg.TraceJoinAfter); f != nil {
			b.joined(j, f.anchor)
			rows.extend(f, &w.part)
			s.l.metrics.joined.Inc()
		} else if waited >= s.l.cfg.OrphanAfter {
			b.orphan(j)
			s.l.metrics.orphans.Inc()
		} else {
			continue
		}
		closed = append(closed, w)
	}
	return closed
}

// orphan makes the part a row of its own.
func (b *batch) orphan(j *joining) {
	s := shapeEngine
	if j.part.Kind == schema.KindTransfer {
		s = shapeMoved
	}
	b.anchor(s, &row{part: &j.part, content: j.content, alt: -1, chosen: -1}, rowOrphan)
}

// close marks parts as done in the table.
func (s *sweeper) close(ctx context.Context, parts []*waitingPart) error {
	b := newBlocks()
	for _, w := range parts {
		version := max(uint64(s.l.now().UnixNano()), w.version+1)
		b.add(shapeWaiting, w.part.StartNanos, &row{part: &w.part, arrived: w.arrived.UnixNano(), version: version, done: 1})
	}
	if err := s.l.insert(ctx, b); err != nil {
		return fmt.Errorf("close %d waiting parts: %w", len(parts), err)
	}
	s.taken.Lock()
	defer s.taken.Unlock()
	for _, w := range parts {
		delete(s.joining, w.part.RowID())
	}
	return nil
}

func (s *sweeper) take(parts []*waitingPart) {
	s.taken.Lock()
	defer s.taken.Unlock()
	for _, w := range parts {
		s.joining[w.part.RowID()] = struct{}{}
	}
}

// untaken leaves out what an earlier sweep has joined already.
func (s *sweeper) untaken(parts []*waitingPart) (left []*waitingPart) {
	s.taken.Lock()
	defer s.taken.Unlock()
	for _, w := range parts {
		if _, ok := s.joining[w.part.RowID()]; !ok {
			left = append(left, w)
		}
	}
	return left
}

// waitingPart is a row of waiting.
type waitingPart struct {
	place   place
	part    schema.Part
	frame   []byte
	arrived time.Time
	version uint64
}

// decode reads the part that a row of waiting holds.
func (w *waitingPart) decode() error {
	if err := wire.DecodePart(w.frame, &w.part); err != nil {
		return fmt.Errorf("read a waiting part: %w", err)
	}
	return nil
}
