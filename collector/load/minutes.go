package load

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// cover is what may be said once the minutes that some inserts touched have
// been made again: offsets that can be committed, and a step to take.
type cover struct {
	seq     uint64
	minutes []int64
	offsets map[int]kafka.Message       // last of each partition, without value
	after   func(context.Context) error // nil: nothing
}

// minute is what is known of one minute of requests.
type minute struct {
	touched uint64    // seq of the last insert into it
	made    uint64    // seq up to which its rollup holds the inserts
	next    time.Time // not made again before
}

// minutes knows which minutes are to be made again, and which covers wait for
// that. All its methods may be called at once.
type minutes struct {
	mu     sync.Mutex
	seq    uint64
	known  map[int64]*minute
	covers []cover
}

func newMinutes() *minutes { return &minutes{known: map[int64]*minute{}} }

// touch notes inserts that are visible now.
func (m *minutes) touch(c cover) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	c.seq = m.seq
	for _, at := range c.minutes {
		if m.known[at] == nil {
			m.known[at] = &minute{}
		}
		m.known[at].touched = c.seq
	}
	if n := len(m.covers); n >= mostCovers {
		c.join(&m.covers[n-1])
		m.covers = m.covers[:n-1]
	}
	m.covers = append(m.covers, c)
}

// mostCovers is how many covers wait at most: beyond it the last ones become one,
// which waits for the minutes of both.
const mostCovers = 1000

// join makes c the cover of what came before it too.
func (c *cover) join(before *cover) {
	all := append(before.minutes, c.minutes...)
	slices.Sort(all)
	c.minutes = slices.Compact(all)
	offsets := maps.Clone(before.offsets)
	if offsets == nil {
		offsets = c.offsets
	}
	maps.Copy(offsets, c.offsets)
	c.offsets = offsets
	if first, second := before.after, c.after; first != nil {
		c.after = func(ctx context.Context) error {
			if err := first(ctx); err != nil || second == nil {
				return err
			}
			return second(ctx)
		}
	}
}

// due gives up to limit minutes to make again, oldest first, and the seq up to
// which their rollups will then hold the inserts. Those that do not hold the
// inserts up to must are due whenever they were made last.
func (m *minutes) due(now time.Time, must uint64, limit int) (due []int64, through uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, k := range m.known {
		if k.touched > k.made && (k.made < must || !now.Before(k.next)) {
			due = append(due, at)
		}
	}
	slices.Sort(due)
	return due[:min(len(due), limit)], m.seq
}

// last is the seq of the last touch.
func (m *minutes) last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seq
}

// made notes that the minutes were made again, at a cost that the next time has
// to be ten times away from, and at least every.
func (m *minutes) made(list []int64, through uint64, now time.Time, cost, every time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range list {
		if k := m.known[at]; k != nil {
			k.made, k.next = through, now.Add(max(every, 10*cost))
		}
	}
	for at, k := range m.known {
		if k.touched <= k.made && now.After(k.next) {
			delete(m.known, at)
		}
	}
}

// ready takes out the covers whose minutes have all been made again. Offsets
// are given in order: a cover waits for those before it.
func (m *minutes) ready() []cover {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.covers) && m.holds(&m.covers[n]) {
		n++
	}
	ready := slices.Clone(m.covers[:n])
	m.covers = slices.Delete(m.covers, 0, n)
	return ready
}

func (m *minutes) holds(c *cover) bool {
	for _, at := range c.minutes {
		if k := m.known[at]; k != nil && k.made < c.seq {
			return false
		}
	}
	return true
}

// pending is how many minutes wait to be made again.
func (m *minutes) pending() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.known {
		if k.touched > k.made {
			n++
		}
	}
	return n
}
