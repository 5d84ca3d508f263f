package extract

import (
	"encoding/binary"
	"math"

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
	Type Type
	bits uint64
	b    []byte
}

// wireTypes are those of the fields of AnyValue.
var wireTypes = [...]protowire.Type{
	anyString: protowire.BytesType, anyBool: protowire.VarintType, anyInt: protowire.VarintType, anyDouble: protowire.Fixed64Type,
	anyArray: protowire.BytesType, anyKVList: protowire.BytesType, anyBytes: protowire.BytesType,
}

// read sets v from an AnyValue. As protobuf has it, the last alternative that is
// set holds.
func (v *Value) read(b []byte) error {
	if len(b) == 9 && b[0] == anyDouble<<3|byte(protowire.Fixed64Type) { // by far the most of a contract span
		*v = Value{Type: TypeDouble, bits: binary.LittleEndian.Uint64(b[1:])}
		return nil
	}
	c := protowalk.Over(b)
	for c.Next() {
		if c.Number >= anyString && c.Number <= anyBytes && c.Type == wireTypes[c.Number] {
			*v = Value{Type: Type(c.Number), bits: c.Num, b: c.Bytes}
		}
	}
	return c.Err
}

// Int is the value of an int.
func (v Value) Int() int64 { return int64(v.bits) }

// Double is the value of a double.
func (v Value) Double() float64 { return math.Float64frombits(v.bits) }

// Bytes are those of a string or of bytes, and the encoded message of an array or
// a key-value list. They point into the request.
func (v Value) Bytes() []byte { return v.b }

// Elements gives a cursor over the elements of an array, in their order.
func (v Value) Elements() Elements { return Elements{protowalk.Over(v.b)} }

// Elements is a cursor over the elements of an array.
type Elements struct{ at protowalk.Cursor }

// Next reads the next element into v. It gives false after the last one, and
// with the error where reading had to stop.
func (es *Elements) Next(v *Value) (bool, error) {
	for es.at.Next() {
		if es.at.Number == arrayValues && es.at.Type == protowire.BytesType {
			*v = Value{}
			err := v.read(es.at.Bytes)
			return err == nil, err
		}
	}
	return false, es.at.Err
}
