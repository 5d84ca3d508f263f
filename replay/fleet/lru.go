package fleet

// lru holds at most capacity blocks, and gives up the one unused for longest.
type lru struct {
	capacity   int
	slots      table
	id         []int32
	prev, next []int32
	head, tail int32 // most and least recently used; −1 where empty
}

func newLRU(capacity int) *lru {
	return &lru{capacity: capacity, slots: newTable(capacity), head: -1, tail: -1}
}

// use makes a block the most recent one. What had to go for it is evicted, −1
// where nothing had to; added says that it was not there.
func (l *lru) use(id int32) (evicted int32, added bool) {
	if l.capacity == 0 {
		return id, false
	}
	if s := l.slots.get(id); s >= 0 {
		if s != l.head {
			l.unlink(s)
			l.lead(s)
		}
		return -1, false
	}
	s := int32(len(l.id))
	evicted = -1
	if len(l.id) < l.capacity {
		l.id, l.prev, l.next = append(l.id, id), append(l.prev, -1), append(l.next, -1)
	} else {
		s = l.tail
		evicted = l.id[s]
		l.slots.remove(evicted)
		l.unlink(s)
		l.id[s] = id
	}
	l.slots.put(id, s)
	l.lead(s)
	return evicted, true
}

func (l *lru) unlink(s int32) {
	p, n := l.prev[s], l.next[s]
	if p >= 0 {
		l.next[p] = n
	} else {
		l.head = n
	}
	if n >= 0 {
		l.prev[n] = p
	} else {
		l.tail = p
	}
}

func (l *lru) lead(s int32) {
	l.prev[s], l.next[s] = -1, l.head
	if l.head >= 0 {
		l.prev[l.head] = s
	}
	l.head = s
	if l.tail < 0 {
		l.tail = s
	}
}

func (l *lru) contents(n *numbering) []int64 {
	out := make([]int64, 0, len(l.id))
	for s := l.tail; s >= 0; s = l.prev[s] {
		out = append(out, n.name(l.id[s]))
	}
	return out
}

// table maps block numbers to slots by open addressing. A Go map took three
// quarters of a run: the blocks of one prompt have neighbouring numbers, so eight
// neighbours share a cache line here.
type table struct {
	entries []tableEntry
	shift   uint8
}

type tableEntry struct {
	key  int32 // block number + 1; 0 means empty
	slot int32
}

// newTable has room for capacity entries, at most half full.
func newTable(capacity int) table {
	bits := uint8(4)
	for 1<<bits < 2*capacity {
		bits++
	}
	return table{entries: make([]tableEntry, 1<<bits), shift: 64 - bits + 3}
}

func (t *table) at(id int32) int {
	group := uint64(id>>3) * 0x9e3779b97f4a7c15 >> t.shift
	return int(group<<3 | uint64(id&7))
}

// get is the slot of a block, −1 where it is not there.
func (t *table) get(id int32) int32 {
	mask := len(t.entries) - 1
	for i := t.at(id); ; i = (i + 1) & mask {
		switch t.entries[i].key {
		case id + 1:
			return t.entries[i].slot
		case 0:
			return -1
		}
	}
}

// put adds a block that is not there.
func (t *table) put(id, slot int32) {
	mask := len(t.entries) - 1
	i := t.at(id)
	for t.entries[i].key != 0 {
		i = (i + 1) & mask
	}
	t.entries[i] = tableEntry{key: id + 1, slot: slot}
}

// remove takes out a block that is there and moves up those that its place had
// pushed on.
func (t *table) remove(id int32) {
	mask := len(t.entries) - 1
	i := t.at(id)
	for t.entries[i].key != id+1 {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.entries[j].key != 0; j = (j + 1) & mask {
		home := t.at(t.entries[j].key - 1)
		if (j-home)&mask >= (j-i)&mask { // its home is not between i and j
			t.entries[i], i = t.entries[j], j
		}
	}
	t.entries[i] = tableEntry{}
}
