package load

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

const sweepPage = 4096 // parts looked at by one query

// tiers say which waiting parts a sweep looks at: the longer they have waited,
// the less often, and the further away in time their request is looked for.
var tiers = [...]tier{
	{waited: time.Minute, every: 0, within: time.Hour},
	{waited: 10 * time.Minute, every: time.Minute, within: time.Hour},
	{waited: math.MaxInt64, every: 10 * time.Minute, within: joinWithin},
}

type tier struct {
	waited time.Duration // parts that came within it
	every  time.Duration // are looked at so often
	within time.Duration // for a request that started this far from them
}

// sweeper joins parts that wait to their requests, by queries. It covers what
// came early, late, through another partition or another process, and may run
// in several processes at once.
type sweeper struct {
	l    *Loader
	mu   sync.Mutex            // one sweep at a time
	last [len(tiers)]time.Time // when each tier was looked at last

	taken   sync.Mutex
	joining map[schema.RowID]struct{} // joined, and not yet closed in the table
}

func newSweeper(l *Loader) *sweeper {
	return &sweeper{l: l, joining: map[schema.RowID]struct{}{}}
}

// tick is one periodic sweep.
func (s *sweeper) tick(ctx context.Context) error { return s.sweep(ctx, false) }

// sweep looks at the parts of the last tier that is due, or at all.
func (s *sweeper) sweep(ctx context.Context, all bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.l.now()
	due := len(tiers) - 1
	for !all && due > 0 && now.Sub(s.last[due]) < tiers[due].every {
		due--
	}
	if err := s.pages(ctx, tiers[due], now); err != nil {
		return err
	}
	for i := range due + 1 {
		s.last[i] = now
	}
	return nil
}

// pages goes through the parts of a tier.
func (s *sweeper) pages(ctx context.Context, t tier, now time.Time) error {
	since := time.Unix(0, 0)
	if t.waited < math.MaxInt64 {
		since = now.Add(-t.waited)
	}
	after, orphans := place{}, 0
	for {
		var parts []*waitingPart
		err := s.l.again(ctx, "sweep", clickhouse.IsRetryable, func(ctx context.Context) (err error) {
			parts, err = s.l.store.waiting(ctx, after, since, sweepPage)
			return err
		})
		if err != nil {
			return err
		}
		if len(parts) == 0 {
			break
		}
		n, err := s.page(ctx, s.untaken(parts), t.within, now)
		if err != nil {
			return err
		}
		orphans += n
		after = parts[len(parts)-1].place
		if s.open() > mostOpen {
			if err := s.l.Flush(ctx); err != nil {
				return err
			}
		}
	}
	if orphans > 0 {
		s.l.log.Warn("load: parts found no request in time and became rows of their own: see that coordinators and engines share "+
			"trace or request ids, or set load.anchor to engine where no coordinator writes spans", "parts", orphans)
	}
	return nil
}

// page joins what it can of some parts, inserts that, and leaves the closing
// of them for when their minutes are made again. It gives how many became
// orphans.
func (s *sweeper) page(ctx context.Context, parts []*waitingPart, within time.Duration, now time.Time) (orphans int, err error) {
	var rows []*found
	err = s.l.again(ctx, "sweep", clickhouse.IsRetryable, func(ctx context.Context) (err error) {
		rows, err = s.l.store.find(ctx, parts, within)
		return err
	})
	if err != nil {
		return 0, err
	}
	b := newBatch(Config{}, s.l.now, s.l.metrics)
	b.blocks.over(s.l.shards())
	closed, orphans := s.join(b, parts, newLookup(rows), now)
	if len(closed) == 0 {
		return 0, nil
	}
	if err := s.l.insert(ctx, b.blocks, false); err != nil {
		return 0, err
	}
	s.take(closed)
	s.l.minutes.touch(cover{minutes: slices.Collect(maps.Keys(b.minutes)), after: func(ctx context.Context) error { return s.close(ctx, closed) }})
	return orphans, nil
}

// join adds the parts that have a row now, or have waited too long, to the
// batch, and gives those. Engines' spans come first: transfers may hang on them.
func (s *sweeper) join(b *batch, parts []*waitingPart, rows *lookup, now time.Time) (closed []*waitingPart, orphans int) {
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
			orphans++
			s.l.metrics.orphans.Inc()
		} else {
			continue
		}
		closed = append(closed, w)
	}
	return closed, orphans
}

// orphan makes the part a row of its own.
func (b *batch) orphan(j *joining) {
	s := shapeEngine
	if j.part.Kind == schema.KindTransfer {
		s = shapeMoved
	}
	p := &j.part
	b.anchor(s, &row{part: p, trace: p.Trace, content: j.content, alt: -1, chosen: -1}, rowOrphan, p.StartNanos, p.RowID(), p.RequestID)
}

// close marks parts as done in the table.
func (s *sweeper) close(ctx context.Context, parts []*waitingPart) error {
	b := newBlocks().over(s.l.shards())
	for _, w := range parts {
		version := max(uint64(s.l.now().UnixNano()), w.version+1)
		b.add(shapeWaiting, w.part.StartNanos, &row{part: &w.part, arrived: w.arrived.UnixNano(), version: version, done: 1})
	}
	if err := s.l.insert(ctx, b, false); err != nil {
		return fmt.Errorf("close %d waiting parts: %w", len(parts), err)
	}
	s.taken.Lock()
	defer s.taken.Unlock()
	for _, w := range parts {
		delete(s.joining, w.part.RowID())
	}
	return nil
}

// mostOpen is how many parts are in memory at most between their joining and
// their closing, but for a page: beyond it a sweep first has minutes made again.
const mostOpen = 50_000

// open is how many parts are joined and not yet closed.
func (s *sweeper) open() int {
	s.taken.Lock()
	defer s.taken.Unlock()
	return len(s.joining)
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
