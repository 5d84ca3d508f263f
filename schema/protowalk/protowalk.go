// Package protowalk goes over the fields of an encoded protobuf message, without
// generated types, reflection or allocation.
package protowalk

import "google.golang.org/protobuf/encoding/protowire"

// Field is one field of a message: Num where it is a varint or fixed64, Bytes,
// which point into the message, where it is length-delimited.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	Num    uint64
	Bytes  []byte
}

// Cursor is at one field of a message.
type Cursor struct {
	Field
	Rest []byte // not yet read
	Err  error  // ends the going; a caller may set it
}

// Over gives a cursor that is before the first field of message.
func Over(message []byte) Cursor { return Cursor{Rest: message} }

// Next goes to the next field. It is false at the end, and where Err is set.
func (c *Cursor) Next() bool {
	if c.Err != nil || len(c.Rest) == 0 {
		return false
	}
	if c.short() {
		return true
	}
	number, typ, n := protowire.ConsumeTag(c.Rest)
	if n < 0 {
		return c.broken(n)
	}
	c.Field = Field{Number: number, Type: typ}
	b := c.Rest[n:]
	switch typ {
	case protowire.VarintType:
		c.Num, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		c.Num, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		c.Bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, typ, b)
	}
	if n < 0 {
		return c.broken(n)
	}
	c.Rest = b[n:]
	return true
}

func (c *Cursor) broken(n int) bool {
	c.Err = protowire.ParseError(n)
	return false
}

// short is Next for a length-delimited field whose tag is one byte and whose
// length is one or two, which nearly all are. It is false for others.
func (c *Cursor) short() bool {
	b := c.Rest
	if len(b) < 3 || b[0]&0x87 != byte(protowire.BytesType) || b[0] < 1<<3 {
		return false
	}
	size, start := int(b[1]), 2
	if size >= 0x80 {
		if b[2] >= 0x80 || b[2] == 0 {
			return false
		}
		size, start = size&0x7f|int(b[2])<<7, 3
	}
	if size > len(b)-start {
		return false
	}
	c.Number, c.Type, c.Num = protowire.Number(b[0]>>3), protowire.BytesType, 0
	c.Bytes, c.Rest = b[start:start+size], b[start+size:]
	return true
}
