package load

import (
	"hash/maphash"
	"strings"

	"github.com/kvwhatif/kvwhatif/schema"
)

// generations is a map that forgets: of the last n to 2n keys set it has all.
type generations[K comparable, V any] struct {
	n        int
	now, old map[K]V
}

func newGenerations[K comparable, V any](n int) *generations[K, V] {
	return &generations[K, V]{n: n, now: map[K]V{}}
}

func (g *generations[K, V]) get(k K) (V, bool) {
	if v, ok := g.now[k]; ok {
		return v, true
	}
	v, ok := g.old[k]
	return v, ok
}

func (g *generations[K, V]) set(k K, v V) {
	if g.n == 0 {
		return
	}
	if len(g.now) >= g.n {
		g.old, g.now = g.now, make(map[K]V, g.n)
	}
	g.now[k] = v
}

// contents remembers what spans said, to find one that comes again with other
// content: of the last n to 2n spans it knows all. It takes 16 bytes a slot, of
// which at most three in four are in use, in memory that holds no pointers.
type contents struct {
	seed     maphash.Seed
	n        int // spans in now before it becomes old
	used     int // of now
	now, old []said
}

// said is a slot of an open hash table.
type said struct {
	span    uint64 // hash of trace and span id; 0: free
	content uint32
}

func newContents(n int) *contents { return &contents{seed: maphash.MakeSeed(), n: n} }

// differs says whether the span was seen with other content, and remembers it
// where it was not seen.
func (c *contents) differs(trace schema.TraceID, span schema.SpanID, content uint32) bool {
	if c.n == 0 {
		return false
	}
	var key [24]byte
	copy(key[:16], trace[:])
	copy(key[16:], span[:])
	h := max(1, maphash.Bytes(c.seed, key[:]))
	if c.now == nil || c.used == c.n {
		c.turn()
	}
	to := slotOf(c.now, h)
	if to.span != 0 {
		return to.content != content
	}
	if c.old != nil {
		if was := slotOf(c.old, h); was.span != 0 {
			return was.content != content
		}
	}
	*to = said{h, content}
	c.used++
	return false
}

// turn makes room by forgetting the older half.
func (c *contents) turn() {
	fresh := c.old
	if fresh == nil {
		size := 1
		for 3*size < 4*c.n+3 {
			size *= 2
		}
		fresh = make([]said, size)
	}
	clear(fresh)
	c.old, c.now, c.used = c.now, fresh, 0
}

// slotOf is the slot that has h, or the free one where h belongs.
func slotOf(slots []said, h uint64) *said {
	mask := uint64(len(slots) - 1)
	i := h & mask
	for slots[i].span != h && slots[i].span != 0 {
		i = (i + 1) & mask
	}
	return &slots[i]
}

// anchor is the row that parts of a request join.
type anchor struct {
	minute int64
	id     schema.RowID
	trace  schema.TraceID
}

// anchors remembers rows, to join what comes soon after its anchor without a
// query. It is idle until the first part that wants to join.
type anchors struct {
	active   bool
	spans    *generations[schema.RowID, anchor] // by hash of (trace, span) of any span in the row
	requests *generations[string, anchor]       // by engine's request id; zero id: several
}

func newAnchors(n int) *anchors {
	return &anchors{spans: newGenerations[schema.RowID, anchor](n), requests: newGenerations[string, anchor](n)}
}

// longestID is the longest request id that is remembered, in bytes; what goes by
// a longer one waits for the sweep.
const longestID = 256

// note remembers that a span, by its row id, and a request id are in the row. The
// request id may lie in a message.
func (a *anchors) note(span schema.RowID, requestID string, row anchor) {
	if !a.active {
		return
	}
	a.spans.set(span, row)
	if requestID == "" || len(requestID) > longestID {
		return
	}
	if was, ok := a.requests.get(requestID); ok && was.id != row.id {
		row = anchor{}
	}
	a.requests.set(strings.Clone(requestID), row)
}

// find gives the row that the part joins by its parent span or its request id.
func (a *anchors) find(p *schema.Part) (anchor, bool) {
	a.active = true
	if row, ok := a.spans.get(schema.NewRowID(p.Trace, p.Parent)); ok {
		return row, true
	}
	if p.RequestID == "" {
		return anchor{}, false
	}
	row, ok := a.requests.get(p.RequestID)
	return row, ok && row.id != schema.RowID{}
}
