package load

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/ClickHouse/ch-go/proto"
)

// dict is a LowCardinality(String) column: each text once, and a key a row. Entry
// 0 is the empty text, so that a row that nobody set is empty.
type dict struct {
	keys  []uint32 // by row
	index proto.ColStr
	slots []slot // an open hash table over index; its size is a power of 2
	seed  maphash.Seed
	last  uint32 // key of the last text: rows that follow each other are alike
}

type slot struct {
	hash uint32
	key  uint32 // 0: free, for the empty text needs no slot
}

const fewSlots = 64

func newDict() *dict {
	d := &dict{seed: maphash.MakeSeed()}
	d.Reset()
	return d
}

// set puts the text into a row that is none of those set before.
func (d *dict) set(row int, s string) {
	if len(d.keys) != row {
		d.fit(row)
	}
	d.keys = append(d.keys, d.key(s))
}

// fit makes the column so many rows long.
func (d *dict) fit(rows int) { d.keys = fitted(d.keys, rows, 0) }

func (d *dict) key(s string) uint32 {
	if s == "" {
		return 0
	}
	if d.is(d.last, s) {
		return d.last
	}
	h := uint32(maphash.String(d.seed, s))
	i := int(h) & (len(d.slots) - 1)
	for ; d.slots[i].key != 0; i = (i + 1) & (len(d.slots) - 1) {
		if d.slots[i].hash == h && d.is(d.slots[i].key, s) {
			d.last = d.slots[i].key
			return d.last
		}
	}
	d.last = uint32(d.index.Rows())
	d.index.Append(s)
	d.slots[i] = slot{h, d.last}
	if 2*d.index.Rows() > len(d.slots) {
		d.grow()
	}
	return d.last
}

func (d *dict) is(key uint32, s string) bool {
	p := d.index.Pos[key]
	return string(d.index.Buf[p.Start:p.End]) == s
}

func (d *dict) grow() {
	old := d.slots
	d.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.key == 0 {
			continue
		}
		i := int(s.hash) & (len(d.slots) - 1)
		for d.slots[i].key != 0 {
			i = (i + 1) & (len(d.slots) - 1)
		}
		d.slots[i] = s
	}
}

// Reset empties the column.
func (d *dict) Reset() {
	d.keys, d.last = d.keys[:0], 0
	d.index.Reset()
	d.index.Append("")
	if len(d.slots) > 64*fewSlots || len(d.slots) == 0 {
		d.slots = make([]slot, fewSlots)
	}
	clear(d.slots)
}

// Type is that of the values sent.
func (d *dict) Type() proto.ColumnType { return "LowCardinality(String)" }

// Rows is how many rows were set or fitted.
func (d *dict) Rows() int { return len(d.keys) }

// EncodeState writes the version of the form below.
func (d *dict) EncodeState(b *proto.Buffer) { b.PutInt64(1) }

// EncodeColumn writes the texts and the keys, of as few bytes as tell them apart.
// Bits 9 and 10 of the first word say that all texts come with the block.
func (d *dict) EncodeColumn(b *proto.Buffer) {
	width := 0
	for d.index.Rows() > 1<<(8<<width) {
		width++
	}
	b.PutInt64(1<<9 | 1<<10 | int64(width))
	b.PutInt64(int64(d.index.Rows()))
	d.index.EncodeColumn(b)
	b.PutInt64(int64(len(d.keys)))
	at := len(b.Buf)
	b.Buf = slices.Grow(b.Buf, len(d.keys)<<width)[:at+len(d.keys)<<width]
	switch to := b.Buf[at:]; width {
	case 0:
		for i, k := range d.keys {
			to[i] = byte(k)
		}
	case 1:
		for i, k := range d.keys {
			binary.LittleEndian.PutUint16(to[2*i:], uint16(k))
		}
	default:
		for i, k := range d.keys {
			binary.LittleEndian.PutUint32(to[4*i:], k)
		}
	}
}

// WriteColumn is EncodeColumn into a Writer.
func (d *dict) WriteColumn(w *proto.Writer) { w.ChainBuffer(d.EncodeColumn) }
