package extract

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
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
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		if f.number >= anyString && f.number <= anyBytes && f.typ == wireTypes[f.number] {
			*v = Value{Type: Type(f.number), bits: f.num, b: f.b}
		}
		b = rest
	}
	return nil
}

// Int is the value of an int.
func (v Value) Int() int64 { return int64(v.bits) }

// Double is the value of a double.
func (v Value) Double() float64 { return math.Float64frombits(v.bits) }

// Bytes are those of a string or of bytes, and the encoded message of an array or
// a key-value list. They point into the request.
func (v Value) Bytes() []byte { return v.b }

// Elements gives a cursor over the elements of an array, in their order.
func (v Value) Elements() Elements { return Elements{v.b} }

// Elements is a cursor over the elements of an array.
type Elements struct{ rest []byte }

// Next reads the next element into v. It gives false after the last one, and
// with the error where reading had to stop.
func (es *Elements) Next(v *Value) (bool, error) {
	for len(es.rest) > 0 {
		f, rest, err := next(es.rest)
		if err != nil {
			return false, err
		}
		es.rest = rest
		if f.number == arrayValues && f.typ == protowire.BytesType {
			*v = Value{}
			err := v.read(f.b)
			return err == nil, err
		}
	}
	return false, nil
}
