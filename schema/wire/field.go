package wire

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/protowalk"
)

var errType = errors.New("wrong wire type")

// field reads one field of a message.
type field protowalk.Field

// cursor goes over the fields of a message.
type cursor struct{ protowalk.Cursor }

func over(message []byte) cursor { return cursor{protowalk.Over(message)} }

// at is the field that the cursor is at.
func (c *cursor) at() *field { return (*field)(&c.Field) }

// message goes into the field, which is a nested message.
func (f *field) message() cursor {
	c := over(f.Bytes)
	c.Err = f.is(protowire.BytesType)
	return c
}

// within gives the error, with the name of the message.
func (c *cursor) within(name string) error {
	if c.Err != nil {
		return fmt.Errorf("%s: %w", name, c.Err)
	}
	return nil
}

// among gives the place of the field among size fields from number from.
func (f *field) among(from protowire.Number, size int) (int, bool) {
	i := int(f.Number) - int(from)
	return i, i >= 0 && i < size
}

func (f *field) is(t protowire.Type) error {
	if f.Type != t {
		return fmt.Errorf("field %d: %w", f.Number, errType)
	}
	return nil
}

func (f *field) count(dst *schema.Count) error {
	*dst = schema.Some(protowire.DecodeZigZag(f.Num))
	return f.is(protowire.VarintType)
}

func (f *field) int(dst *int64) error {
	*dst = protowire.DecodeZigZag(f.Num)
	return f.is(protowire.VarintType)
}

func (f *field) seconds(dst *schema.Seconds) error {
	*dst = schema.Some(math.Float64frombits(f.Num))
	return f.is(protowire.Fixed64Type)
}

func (f *field) float(dst *float64) error {
	*dst = math.Float64frombits(f.Num)
	return f.is(protowire.Fixed64Type)
}

func (f *field) nanos(dst *int64) error {
	*dst = int64(f.Num)
	return f.is(protowire.Fixed64Type)
}

func (f *field) id(dst []byte) error {
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	if len(f.Bytes) != len(dst) {
		return fmt.Errorf("field %d: identifier of %d bytes, want %d", f.Number, len(f.Bytes), len(dst))
	}
	copy(dst, f.Bytes)
	return nil
}

// enum reads a number of at most last.
func enum[T ~uint8](f *field, dst *T, last T) error {
	if f.Num > uint64(last) {
		return fmt.Errorf("field %d: %d is no value of this schema version (last is %d)", f.Number, f.Num, last)
	}
	*dst = T(f.Num)
	return f.is(protowire.VarintType)
}
