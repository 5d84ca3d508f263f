package crash

// lags of late pieces, in requests: some are late by a little, some by very much.
// The first are early.
const (
	mostEarly = 400
	mostLate  = 2500
)

// stream gives the pieces of a story in the order in which they are to be sent:
// most of them around their request, some long before or after it.
type stream struct {
	story *story
	slots map[int][]item
	told  int // requests that are in slots
	at    int // next slot
}

func newStream(s *story) *stream { return &stream{story: s, slots: map[int][]item{}} }

// next gives what is due at the next slot.
func (s *stream) next() []item {
	for ; s.told <= s.at+mostEarly; s.told++ {
		s.tell(s.told)
	}
	due := s.slots[s.at]
	delete(s.slots, s.at)
	s.at++
	return due
}

// rest gives what is left of the requests that are told already.
func (s *stream) rest() (left []item) {
	for last := s.told + mostLate; s.at <= last; s.at++ {
		left = append(left, s.slots[s.at]...)
		delete(s.slots, s.at)
	}
	return left
}

// tell puts the pieces of request n into slots.
func (s *stream) tell(n int) {
	y := s.story
	put := func(of piece, slot int) {
		slot = max(slot, s.at)
		s.slots[slot] = append(s.slots[slot], item{int32(n), of})
	}
	put(pieceContract, n)
	if y.modelFromEngine(n) || y.draw(n, drawEngine<<8)%2 == 0 {
		put(pieceEngine, n+s.lag(n, pieceEngine))
	}
	for _, c := range []struct {
		first, second piece
		one           uint64
	}{{pieceLookup, pieceLookup2, 4}, {pieceLoad, pieceLoad2, 8}} {
		if y.one(c.one, n, drawLookup<<16+uint64(c.first)) {
			put(c.first, n+s.lag(n, c.first))
			if y.one(2, n, drawLookup<<16+uint64(c.second)) {
				put(c.second, n+s.lag(n, c.second))
			}
		}
	}
	if y.one(16, n, drawLeg<<8) {
		put(pieceLeg, n+50)
		put(pieceLegEngine, n+51)
		put(pieceLegLookup, n+52)
	}
	for _, c := range []struct {
		of  piece
		one uint64
	}{{pieceStray, 200}, {piecePoison, 150}, {pieceBad, 400}, {pieceGarbage, 800}} {
		if y.one(c.one, n, drawPoison<<8+uint64(c.of)) {
			put(c.of, n)
		}
	}
}

// lag is how many requests after its own a piece comes.
func (s *stream) lag(n int, of piece) int {
	h := s.story.draw(n, drawGarbage<<8+uint64(of))
	switch h % 8 {
	case 0:
		return -int(h >> 8 % mostEarly)
	case 1:
		return int(h >> 8 % mostLate)
	case 2, 3:
		return int(h >> 8 % 300)
	}
	return int(h >> 8 % 20)
}
