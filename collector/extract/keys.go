package extract

import (
	"encoding/binary"
	"math/bits"
)

// rules finds the rule of an attribute by its key. It is a perfect hash: each
// key of an adapter has a place of its own, so that finding one, or none, is one
// look and one comparison.
type rules struct {
	list  []rule
	slots []uint8 // index into list by place, plus 1
	mult  uint64  // under which no two keys share a place
	shift uint
}

// maxRules is what reading.seen has bits for.
const maxRules = len(reading{}.seen) * 64

// rulesOf gives each rule its bit and its place.
func rulesOf(sets sets) rules {
	if len(sets) > maxRules {
		panic("more rules than reading.seen has bits")
	}
	rs := rules{mult: 0x9e3779b97f4a7c15}
	for key, r := range sets {
		r.key, r.word, r.mask = key, uint8(len(rs.list)/64), 1<<(len(rs.list)%64)
		rs.list = append(rs.list, r)
	}
	size := bits.Len(uint(len(rs.list)*len(rs.list)/8 + 8)) // of places, as a power of two
	rs.shift = uint(64 - size)
	const tries = 1 << 16
	for range tries {
		rs.slots = make([]uint8, 1<<size)
		if rs.place() {
			return rs
		}
		rs.mult = rs.mult*0xd1342543de82ef95 + 2 // odd stays odd
	}
	panic("two keys of an adapter have one fingerprint")
}

// place is false where two keys share a place.
func (rs *rules) place() bool {
	for i := range rs.list {
		slot := &rs.slots[rs.slot([]byte(rs.list[i].key))]
		if *slot != 0 {
			return false
		}
		*slot = uint8(i + 1)
	}
	return true
}

func (rs *rules) slot(key []byte) uint64 { return fingerprint(key) * rs.mult >> rs.shift }

// find gives the rule of key, nil for one that nobody knows.
func (rs *rules) find(key []byte) *rule {
	if slot := rs.slots[rs.slot(key)]; slot != 0 {
		if r := &rs.list[slot-1]; r.key == string(key) {
			return r
		}
	}
	return nil
}

// fingerprint mixes the length of a key, its end and its middle: what tells keys
// of one namespace apart.
func fingerprint(key []byte) uint64 {
	n := len(key)
	if n < 8 {
		x := uint64(n)
		for _, c := range key {
			x = x<<8 | uint64(c)
		}
		return x
	}
	end, middle := binary.LittleEndian.Uint64(key[n-8:]), binary.LittleEndian.Uint64(key[(n-8)/2:])
	return end ^ bits.RotateLeft64(middle, 23) + uint64(n)<<40
}
