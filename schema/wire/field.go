package wire

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

var errType = errors.New("wrong wire type")

// field is one field of a message: v where it is a varint or fixed, b where it
// is length-delimited.
type field struct {
	num protowire.Number
	typ protowire.Type
	v   uint64
	b   []byte
}

// cursor goes over the fields of a message; it is at one of them.
type cursor struct {
	field
	rest []byte
	err  error // ends the going
}

// next goes to the next field. It is false at the end, and after an error.
func (c *cursor) next() bool {
	if c.err != nil || len(c.rest) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(c.rest)
	if n < 0 {
		return c.broken(n)
	}
	c.field = field{num: num, typ: typ}
	b := c.rest[n:]
	switch typ {
	case protowire.VarintType:
		c.v, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		c.v, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		c.b, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(num, typ, b)
	}
	if n < 0 {
		return c.broken(n)
	}
	c.rest = b[n:]
	return true
}

func (c *cursor) broken(n int) bool {
	c.err = protowire.ParseError(n)
	return false
}

// message goes into the field, which is a nested message.
func (f *field) message() cursor { return cursor{rest: f.b, err: f.is(protowire.BytesType)} }

// within gives the error, with the name of the message.
func (c *cursor) within(name string) error {
	if c.err != nil {
		return fmt.Errorf("%s: %w", name, c.err)
	}
	return nil
}

// at gives the place of the field among size fields from number from.
func (f *field) at(from protowire.Number, size int) (int, bool) {
	i := int(f.num) - int(from)
	return i, i >= 0 && i < size
}

func (f *field) is(t protowire.Type) error {
	if f.typ != t {
		return fmt.Errorf("field %d: %w", f.num, errType)
	}
	return nil
}

func (f *field) count(dst *schema.Count) error {
	*dst = schema.Some(protowire.DecodeZigZag(f.v))
	return f.is(protowire.VarintType)
}

func (f *field) int(dst *int64) error {
	*dst = protowire.DecodeZigZag(f.v)
	return f.is(protowire.VarintType)
}

func (f *field) seconds(dst *schema.Seconds) error {
	*dst = schema.Some(math.Float64frombits(f.v))
	return f.is(protowire.Fixed64Type)
}

func (f *field) float(dst *float64) error {
	*dst = math.Float64frombits(f.v)
	return f.is(protowire.Fixed64Type)
}

func (f *field) nanos(dst *int64) error {
	*dst = int64(f.v)
	return f.is(protowire.Fixed64Type)
}

func (f *field) id(dst []byte) error {
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	if len(f.b) != len(dst) {
		return fmt.Errorf("field %d: identifier of %d bytes, want %d", f.num, len(f.b), len(dst))
	}
	copy(dst, f.b)
	return nil
}

// enum reads a number of at most last.
func enum[T ~uint8](f *field, dst *T, last T) error {
	if f.v > uint64(last) {
		return fmt.Errorf("field %d: %d is no value of this schema version (last is %d)", f.num, f.v, last)
	}
	*dst = T(f.v)
	return f.is(protowire.VarintType)
}
