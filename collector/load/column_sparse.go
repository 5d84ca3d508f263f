package load

import (
	"slices"

	"github.com/ClickHouse/ch-go/proto"
)

// The columns below are set row by row where there is something to set. What lies
// between is filled in when they are fitted, and a column that no row of a block
// set is not sent: the table's default is the same.

// columnSet is the columns of a block that is being made.
type columnSet []column

func (s *columnSet) always(name string, data proto.ColInput) {
	*s = append(*s, column{name: name, data: data})
}

func (s *columnSet) low(name string) *dict {
	d := newDict()
	*s = append(*s, column{name: name, data: d, fit: d.fit})
	return d
}

func (s *columnSet) text(name string) *sparseText {
	t := new(sparseText)
	*s = append(*s, column{name: name, data: &t.ColStr, fit: t.fit})
	return t
}

func (s *columnSet) enum(name string) plain[int8] {
	values := new(proto.ColInt8)
	p := plain[int8]{(*[]int8)(values)}
	*s = append(*s, column{name: name, data: values, fit: p.fit})
	return p
}

func (s *columnSet) int64(name string) plain[int64] {
	values := new(proto.ColInt64)
	p := plain[int64]{(*[]int64)(values)}
	*s = append(*s, column{name: name, data: values, fit: p.fit})
	return p
}

func (s *columnSet) float32(name string) *optional[float32] {
	values := new(proto.ColFloat32)
	return newOptional[float32](s, name, values, (*[]float32)(values))
}

func (s *columnSet) uint8(name string) *optional[uint8] {
	values := new(proto.ColUInt8)
	return newOptional[uint8](s, name, values, (*[]uint8)(values))
}

func (s *columnSet) uint32(name string) *optional[uint32] {
	values := new(proto.ColUInt32)
	return newOptional[uint32](s, name, values, (*[]uint32)(values))
}

func (s *columnSet) uint64(name string) *optional[uint64] {
	values := new(proto.ColUInt64)
	return newOptional[uint64](s, name, values, (*[]uint64)(values))
}

// fitted gives list with so many rows; new ones are fill.
func fitted[T any, L ~[]T](list L, rows int, fill T) L {
	if len(list) >= rows {
		return list[:rows]
	}
	list = slices.Grow(list, rows-len(list))
	for len(list) < rows {
		list = append(list, fill)
	}
	return list
}

// optional is a Nullable column.
type optional[T any] struct {
	values *[]T // those of col
	col    *proto.ColNullable[T]
}

func newOptional[T any](s *columnSet, name string, values proto.ColumnOf[T], list *[]T) *optional[T] {
	o := &optional[T]{list, proto.NewColNullable(values)}
	*s = append(*s, column{name: name, data: o.col, fit: o.fit})
	return o
}

func (o *optional[T]) set(row int, v T) {
	if len(*o.values) != row {
		o.fit(row)
	}
	*o.values = append(*o.values, v)
	o.col.Nulls = append(o.col.Nulls, 0)
}

func (o *optional[T]) fit(rows int) {
	var zero T
	*o.values, o.col.Nulls = fitted(*o.values, rows, zero), fitted(o.col.Nulls, rows, 1)
}

// plain is a column whose rows are zero where nobody set them.
type plain[T any] struct{ values *[]T }

func (p plain[T]) set(row int, v T) {
	if len(*p.values) != row {
		p.fit(row)
	}
	*p.values = append(*p.values, v)
}

func (p plain[T]) fit(rows int) {
	var zero T
	*p.values = fitted(*p.values, rows, zero)
}

// sparseText is a String column.
type sparseText struct{ proto.ColStr }

func (t *sparseText) set(row int, s string) {
	t.fit(row)
	t.Append(s)
}

func (t *sparseText) fit(rows int) { t.Pos = fitted(t.Pos, rows, proto.Position{}) }

// listed is an Array column whose offsets are those of others too.
type listed struct {
	offsets *[]uint64
	values  proto.ColInput
}

// Type is that of the values sent.
func (l listed) Type() proto.ColumnType { return proto.ColumnTypeArray.Sub(l.values.Type()) }

// Rows is how many arrays there are.
func (l listed) Rows() int { return len(*l.offsets) }

// EncodeColumn writes the ends of the arrays, then their elements.
func (l listed) EncodeColumn(b *proto.Buffer) {
	proto.ColUInt64(*l.offsets).EncodeColumn(b)
	l.values.EncodeColumn(b)
}

// WriteColumn is EncodeColumn into a Writer.
func (l listed) WriteColumn(w *proto.Writer) { w.ChainBuffer(l.EncodeColumn) }

// Reset empties the column.
func (l listed) Reset() {
	*l.offsets = (*l.offsets)[:0]
	l.values.(proto.Resettable).Reset()
}
