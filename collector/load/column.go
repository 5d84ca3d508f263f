package load

import (
	"github.com/ClickHouse/ch-go/proto"

	"github.com/kvwhatif/kvwhatif/schema"
)

// The functions below make one column each, of the type that the server casts
// to the table's: an enum goes as Int8, a SimpleAggregateFunction as its plain
// value.

func lowText(name string, get func(*row) string) column {
	c := newDict()
	return column{name: name, data: c, add: func(r *row) { c.keys = append(c.keys, c.key(get(r))) }}
}

func text(name string, get func(*row) string) column {
	c := new(proto.ColStr)
	return column{name: name, data: c, add: func(r *row) { c.Append(get(r)) }}
}

func bytesOf(name string, get func(*row) []byte) column {
	c := new(proto.ColStr)
	return column{name: name, data: c, add: func(r *row) { c.AppendBytes(get(r)) }}
}

func fixed16(name string, get func(*row) [16]byte) column {
	c := new(proto.ColFixedStr16)
	return column{name: name, data: c, add: func(r *row) { *c = append(*c, get(r)) }}
}

func enum8(name string, get func(*row) uint8) column {
	c := new(proto.ColInt8)
	return column{name: name, data: c, add: func(r *row) { *c = append(*c, int8(get(r))) }}
}

func uint8Of(name string, get func(*row) uint8) column {
	c := new(proto.ColUInt8)
	return column{name: name, data: c, add: func(r *row) { *c = append(*c, get(r)) }}
}

func uint64Of(name string, get func(*row) uint64) column {
	c := new(proto.ColUInt64)
	return column{name: name, data: c, add: func(r *row) { *c = append(*c, get(r)) }}
}

func int64Of(name string, get func(*row) int64) column {
	c := new(proto.ColInt64)
	return column{name: name, data: c, add: func(r *row) { *c = append(*c, get(r)) }}
}

func float64Of(name string, get func(*row) float64) column {
	c := new(proto.ColFloat64)
	return column{name: name, data: c, add: func(r *row) { *c = append(*c, get(r)) }}
}

// minuteOf is a DateTime of whole seconds.
func minuteOf(name string, get func(*row) int64) column {
	c := new(proto.ColDateTime)
	return column{name: name, data: c, add: func(r *row) { c.Data = append(c.Data, proto.DateTime(get(r))) }}
}

// dayOf is the Date of an instant in nanoseconds.
func dayOf(name string, get func(*row) int64) column {
	c := new(proto.ColDate)
	return column{name: name, data: c, add: func(r *row) { *c = append(*c, proto.Date(dayNumber(get(r)))) }}
}

// nanos is a DateTime64(9).
func nanos(name string, get func(*row) int64) column {
	c := new(proto.ColDateTime64).WithPrecision(proto.PrecisionNano)
	return column{name: name, data: c, add: func(r *row) { c.Data = append(c.Data, proto.DateTime64(get(r))) }}
}

// millis is a DateTime64(3) of an instant in nanoseconds.
func millis(name string, get func(*row) int64) column {
	c := new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
	return column{name: name, data: c, add: func(r *row) { c.Data = append(c.Data, proto.DateTime64(get(r)/1e6)) }}
}

// nullable appends v, or NULL, to a Nullable column whose values are in values.
func nullable[T any, C ~[]T](c *proto.ColNullable[T], values *C, v T, ok bool) {
	null := uint8(1)
	if ok {
		null = 0
	} else {
		var zero T
		v = zero
	}
	c.Nulls = append(c.Nulls, null)
	*values = append(*values, v)
}

func seconds32(name string, get func(*row) schema.Seconds) column {
	values := new(proto.ColFloat32)
	c := proto.NewColNullable[float32](values)
	return column{name: name, data: c, add: func(r *row) { v := get(r); nullable(c, values, float32(v.V), v.OK) }}
}

func seconds64(name string, get func(*row) schema.Seconds) column {
	values := new(proto.ColFloat64)
	c := proto.NewColNullable[float64](values)
	return column{name: name, data: c, add: func(r *row) { v := get(r); nullable(c, values, v.V, v.OK) }}
}

func count8(name string, get func(*row) schema.Count) column {
	values := new(proto.ColUInt8)
	c := proto.NewColNullable[uint8](values)
	return column{name: name, data: c, add: func(r *row) { v := get(r); nullable(c, values, uint8(v.V), v.OK) }}
}

func count16(name string, get func(*row) schema.Count) column {
	values := new(proto.ColInt16)
	c := proto.NewColNullable[int16](values)
	return column{name: name, data: c, add: func(r *row) { v := get(r); nullable(c, values, int16(v.V), v.OK) }}
}

func count32(name string, get func(*row) schema.Count) column {
	values := new(proto.ColUInt32)
	c := proto.NewColNullable[uint32](values)
	return column{name: name, data: c, add: func(r *row) { v := get(r); nullable(c, values, uint32(v.V), v.OK) }}
}

func count64(name string, get func(*row) schema.Count) column {
	values := new(proto.ColUInt64)
	c := proto.NewColNullable[uint64](values)
	return column{name: name, data: c, add: func(r *row) { v := get(r); nullable(c, values, uint64(v.V), v.OK) }}
}

// oneUint64 is an array of one element.
func oneUint64(name string, get func(*row) uint64) column {
	values := new(proto.ColUInt64)
	c := proto.NewArray[uint64](values)
	return column{name: name, data: c, add: func(r *row) {
		*values = append(*values, get(r))
		c.Offsets = append(c.Offsets, uint64(len(*values)))
	}}
}

// oneUint32 is an array of one element.
func oneUint32(name string, get func(*row) uint32) column {
	values := new(proto.ColUInt32)
	c := proto.NewArray[uint32](values)
	return column{name: name, data: c, add: func(r *row) {
		*values = append(*values, get(r))
		c.Offsets = append(c.Offsets, uint64(len(*values)))
	}}
}

// mapOf is a Map(UInt64, UInt64) of one entry, or of none where ok is false.
func mapOf(name string, get func(*row) (key, value uint64, ok bool)) column {
	keys, values := new(proto.ColUInt64), new(proto.ColUInt64)
	c := proto.NewMap[uint64, uint64](keys, values)
	return column{name: name, data: c, add: func(r *row) {
		if k, v, ok := get(r); ok {
			*keys = append(*keys, k)
			*values = append(*values, v)
		}
		c.Offsets = append(c.Offsets, uint64(len(*keys)))
	}}
}
