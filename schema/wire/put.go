package wire

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

// message is a nested message that is being written.
type message struct {
	tag   int // index of its tag
	body  int // index of its first field
	width int // bytes that were left for its length
}

// begin writes the tag of a nested message and leaves width bytes for its length;
// end closes it, and takes all of it back where the message is empty. A wrong
// guess at the width costs a move of the message.
func begin(b []byte, i int, number protowire.Number, width int) (int, message) {
	m := message{tag: i, width: width}
	m.body = putTag(b, i, number, protowire.BytesType) + width
	return m.body, m
}

func end(b []byte, i int, m message) int {
	if i == m.body {
		return m.tag
	}
	return endKept(b, i, m)
}

// endKept is end for an element of a list, which is there though it is empty.
func endKept(b []byte, i int, m message) int {
	n := uint64(i - m.body)
	at := m.body - m.width
	if width := protowire.SizeVarint(n); width != m.width {
		i = at + width + copy(b[at+width:], b[m.body:i])
	}
	putVarint(b, at, n)
	return i
}

// putTag writes a tag of one or two bytes: of a number below 2048.
func putTag(b []byte, i int, number protowire.Number, typ protowire.Type) int {
	tag := uint(number)<<3 | uint(typ)
	if tag < 0x80 {
		b[i] = byte(tag)
		return i + 1
	}
	b[i], b[i+1] = byte(tag)|0x80, byte(tag>>7)
	return i + 2
}

func putVarint(b []byte, i int, v uint64) int {
	for v >= 0x80 {
		b[i] = byte(v) | 0x80
		v >>= 7
		i++
	}
	b[i] = byte(v)
	return i + 1
}

func put64(b []byte, i int, v uint64) int {
	binary.LittleEndian.PutUint64(b[i:], v)
	return i + 8
}

func putUint(b []byte, i int, number protowire.Number, v uint64) int {
	if v == 0 {
		return i
	}
	return putVarint(b, putTag(b, i, number, protowire.VarintType), v)
}

func putInt(b []byte, i int, number protowire.Number, v int64) int {
	return putUint(b, i, number, protowire.EncodeZigZag(v))
}

func putFixed(b []byte, i int, number protowire.Number, v uint64) int {
	if v == 0 {
		return i
	}
	return put64(b, putTag(b, i, number, protowire.Fixed64Type), v)
}

func putCount(b []byte, i int, number protowire.Number, c schema.Count) int {
	if !c.OK {
		return i
	}
	return putVarint(b, putTag(b, i, number, protowire.VarintType), protowire.EncodeZigZag(c.V))
}

func putSeconds(b []byte, i int, number protowire.Number, s schema.Seconds) int {
	if !s.OK {
		return i
	}
	return put64(b, putTag(b, i, number, protowire.Fixed64Type), math.Float64bits(s.V))
}

func putText(b []byte, i int, number protowire.Number, s string) int {
	if s == "" {
		return i
	}
	i = putVarint(b, putTag(b, i, number, protowire.BytesType), uint64(len(s)))
	return i + copy(b[i:], s)
}

func putBytes(b []byte, i int, number protowire.Number, p []byte) int {
	i = putVarint(b, putTag(b, i, number, protowire.BytesType), uint64(len(p)))
	return i + copy(b[i:], p)
}

func putSpanID(b []byte, i int, number protowire.Number, id *schema.SpanID) int {
	if *id == (schema.SpanID{}) {
		return i
	}
	return putBytes(b, i, number, id[:])
}
