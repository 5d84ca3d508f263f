package extract

import (
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema/protowalk"
)

// Type is what an attribute's value is.
type Type uint8

// The types of value, numbered as the fields of OTLP's AnyValue.
const (
	TypeNone   Type = 0
	TypeString Type = anyString
	TypeBool   Type = anyBool
	TypeInt    Type = anyInt
	TypeDouble Type = anyDouble
	TypeArray  Type = anyArray
	TypeKVList Type = anyKVList
	TypeBytes  Type = anyBytes
)

var typeNames = [...]string{"nothing", "a string", "a bool", "an int", "a double", "an array", "a key-value list", "bytes"}

// String names the type for people, with its article: "a string".
func (t Type) String() string { return typeNames[t] }

// Value is a view of one attribute value: bits for a bool, int or double, bytes
// for the rest, which point into the request.
type Value struct {
	Type   Type
	joined bool // b is a copy: a list that was set more than once
	bits   uint64
	b      []byte
}

// wireTypes are those of the fields of AnyValue.
var wireTypes = [...]protowire.Type{
	anyString: protowire.BytesType, anyBool: protowire.VarintType, anyInt: protowire.VarintType, anyDouble: protowire.Fixed64Type,
	anyArray: protowire.BytesType, anyKVList: protowire.BytesType, anyBytes: protowire.BytesType,
}

// read sets v from an AnyValue, whatever form it has. As protobuf has it, the
// last alternative that is set holds, and a list that is set again goes on.
func (v *Value) read(b []byte) error {
	if v.Type == TypeNone {
		if got, ok := usualValue(b); ok {
			*v = got
			return nil
		}
	}
	c := protowalk.Over(b)
	for c.Next() {
		if c.Number < anyString || c.Number > anyBytes || c.Type != wireTypes[c.Number] {
			continue
		}
		next := Value{Type: Type(c.Number), bits: c.Num, b: c.Bytes}
		if next.Type == v.Type && (v.Type == TypeArray || v.Type == TypeKVList) {
			next.b, next.joined = v.join(next.b), true
		}
		*v = next
	}
	return c.Err
}

// join gives the list that v is and what it goes on with, in memory of its own.
func (v *Value) join(more []byte) []byte {
	if v.joined {
		return append(v.b, more...)
	}
	return slices.Concat(v.b, more)
}

// Int is the value of an int.
func (v Value) Int() int64 { return int64(v.bits) }

// Double is the value of a double.
func (v Value) Double() float64 { return math.Float64frombits(v.bits) }

// Bytes are those of a string or of bytes, and the encoded message of an array or
// a key-value list. They point into the request.
func (v Value) Bytes() []byte { return v.b }

// Elements gives a cursor over the elements of an array, in their order.
func (v Value) Elements() Elements { return Elements(v.b) }

// Elements is a cursor over the elements of an array: what is not yet read.
type Elements []byte

// Next reads the next element into v. It gives false after the last one, and
// with the error where reading had to stop.
func (es *Elements) Next(v *Value) (bool, error) {
	c := protowalk.Over(*es)
	for c.Next() {
		*es = c.Rest
		if c.Number == arrayValues && c.Type == protowire.BytesType {
			*v = Value{}
			err := v.read(c.Bytes)
			return err == nil, err
		}
	}
	return false, c.Err
}

// The functions below read messages in the form that encoders give them: fields
// in the order of their numbers, each once, lengths as short as they can be. ok
// is false for every other form, which may be as valid: it is read by a
// protowalk.Cursor.

const (
	tagString = anyString<<3 | byte(protowire.BytesType)
	tagInt    = anyInt<<3 | byte(protowire.VarintType)
	tagDouble = anyDouble<<3 | byte(protowire.Fixed64Type)
	tagArray  = anyArray<<3 | byte(protowire.BytesType)

	tagElement = arrayValues<<3 | byte(protowire.BytesType)

	tagKey               = keyValueKey<<3 | byte(protowire.BytesType)
	tagValue             = keyValueValue<<3 | byte(protowire.BytesType)
	tagResourceAttribute = resourceAttributes<<3 | byte(protowire.BytesType)

	tagAttribute = spanAttributes<<3 | byte(protowire.BytesType)
)

// length reads a length of one or two bytes at b[1], after a tag, and gives where
// what it counts begins and ends in b.
func length(b []byte) (start, end int, ok bool) {
	if len(b) < 2 {
		return 0, 0, false
	}
	n := int(b[1])
	if n < 0x80 {
		return 2, 2 + n, 2+n <= len(b)
	}
	if len(b) < 3 || b[2] == 0 || b[2] >= 0x80 {
		return 0, 0, false
	}
	n = n&0x7f | int(b[2])<<7
	return 3, 3 + n, 3+n <= len(b)
}

// places are indexes of what an attribute is made of, in the message that holds
// it: of its key, of its encoded AnyValue, and the end of both.
type places struct{ key, keyEnd, value, end int }

// usualAttribute finds the places of an attribute of a span, which begins at
// b[0].
func usualAttribute(b []byte) (at places, ok bool) {
	start, end, ok := length(b)
	if !ok || b[0] != tagAttribute || end-start < 4 || b[start] != tagKey || b[start+1] >= 0x80 {
		return at, false
	}
	at.key, at.end = start+2, end
	at.keyEnd = at.key + int(b[start+1])
	if at.keyEnd+2 > end || b[at.keyEnd] != tagValue {
		return at, false
	}
	from, to, ok := length(b[at.keyEnd:end])
	at.value = at.keyEnd + from
	return at, ok && at.keyEnd+to == end
}

// usualValue reads an AnyValue that is a string, an int, a double or an array.
func usualValue(b []byte) (v Value, ok bool) {
	if len(b) < 2 {
		return v, false
	}
	switch b[0] {
	case tagDouble:
		if len(b) == 9 {
			return Value{Type: TypeDouble, bits: binary.LittleEndian.Uint64(b[1:])}, true
		}
	case tagString, tagArray:
		if start, end, ok := length(b); ok && end == len(b) {
			return Value{Type: Type(b[0] >> 3), b: b[start:]}, true
		}
	case tagInt:
		if x, n := varint(b[1:]); n == len(b)-1 {
			return Value{Type: TypeInt, bits: x}, true
		}
	}
	return v, false
}

func usualDouble(b []byte) (x float64, ok bool) {
	if len(b) != 9 || b[0] != tagDouble {
		return 0, false
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b[1:])), true
}

func usualString(b []byte) (s []byte, ok bool) {
	start, end, ok := length(b)
	if !ok || b[0] != tagString || end != len(b) {
		return nil, false
	}
	return b[start:], true
}

// varint is protowire.ConsumeVarint, made for short ones.
func varint(b []byte) (x uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}
