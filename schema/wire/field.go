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

// next cuts the first field off b.
func next(b []byte) (f field, rest []byte, err error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	f.num, f.typ = num, typ
	b = b[n:]
	switch typ {
	case protowire.VarintType:
		f.v, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.v, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		f.b, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(num, typ, b)
	}
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}

// at gives the place of the field among size fields from number from.
func (f field) at(from protowire.Number, size int) (int, bool) {
	i := int(f.num) - int(from)
	return i, i >= 0 && i < size
}

func (f field) is(t protowire.Type) error {
	if f.typ != t {
		return fmt.Errorf("field %d: %w", f.num, errType)
	}
	return nil
}

func (f field) count(dst *schema.Count) error {
	*dst = schema.Some(protowire.DecodeZigZag(f.v))
	return f.is(protowire.VarintType)
}

func (f field) int(dst *int64) error {
	*dst = protowire.DecodeZigZag(f.v)
	return f.is(protowire.VarintType)
}

func (f field) seconds(dst *schema.Seconds) error {
	*dst = schema.Some(math.Float64frombits(f.v))
	return f.is(protowire.Fixed64Type)
}

func (f field) float(dst *float64) error {
	*dst = math.Float64frombits(f.v)
	return f.is(protowire.Fixed64Type)
}

func (f field) nanos(dst *int64) error {
	*dst = int64(f.v)
	return f.is(protowire.Fixed64Type)
}

func (f field) id(dst []byte) error {
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
func enum[T ~uint8](f field, dst *T, last T) error {
	if f.v > uint64(last) {
		return fmt.Errorf("field %d: %d is no value of this schema version (last is %d)", f.num, f.v, last)
	}
	*dst = T(f.v)
	return f.is(protowire.VarintType)
}
