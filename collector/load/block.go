package load

import (
	"fmt"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// row is a part on its way into a block, with what was worked out about it.
type row struct {
	part    *schema.Part
	view    *wire.View // in place of part in a row of contract spans
	minute  int64      // of the anchor, Unix seconds, a multiple of 60
	id      schema.RowID
	trace   schema.TraceID // of the anchor
	kind    uint8          // rowNone where the part joins another span's row
	content uint32         // hash of the part as it was on the wire
	alt     int            // index of the alternative, −1 without
	chosen  int            // index of the choice, −1 without
	move    movement       // for a row of transfers

	// Of a row of waiting.
	frame   []byte // the part as on the wire
	arrived int64  // Unix nanoseconds
	version uint64
	done    uint8
}

// Values of requests.kind.
const (
	rowNone     = 0
	rowOrphan   = 1
	rowEngine   = 2
	rowContract = 3
)

// column is one column of a block. Either add appends every row's value to data,
// or the rows that have one are set, and fit fills in the others.
type column struct {
	name string
	data proto.ColInput
	add  func(*row)
	fit  func(rows int)
}

// unset says that no row set the column.
func (c *column) unset() bool { return c.fit != nil && c.data.Rows() == 0 }

// block is the rows of one insert, by column. Its columns may be fewer than the
// table's: the rest is filled in by the table's defaults.
type block struct {
	table   string
	shape   shape
	shard   int                // that its rows belong on
	days    map[int64]struct{} // that its rows are of
	day     int64              // of the last row
	columns []column
	rows    int
	direct  *contractRows // nil but in a block of contract spans
	buf     proto.Buffer
}

func newBlock(table string, columns ...[]column) *block {
	b := &block{table: table, days: map[int64]struct{}{}}
	for _, c := range columns {
		b.columns = append(b.columns, c...)
	}
	return b
}

func (b *block) add(r *row) {
	if b.direct != nil {
		b.direct.add(b.rows, r)
		b.rows++
		return
	}
	for i := range b.columns {
		b.columns[i].add(r)
	}
	b.rows++
}

func (b *block) reset() {
	for _, c := range b.columns {
		c.data.(proto.Resettable).Reset()
	}
	b.rows = 0
	clear(b.days)
}

// insert is the statement that goes before the encoded block.
func (b *block) insert() string {
	names := make([]string, 0, len(b.columns))
	for i := range b.columns {
		if c := &b.columns[i]; !c.unset() {
			names = append(names, "`"+c.name+"`")
		}
	}
	return fmt.Sprintf("INSERT INTO %s (%s)", b.table, strings.Join(names, ", "))
}

// input gives the columns that rows have set.
func (b *block) input() []proto.InputColumn {
	input := make([]proto.InputColumn, 0, len(b.columns))
	for i := range b.columns {
		c := &b.columns[i]
		if c.unset() {
			continue
		}
		if c.fit != nil {
			c.fit(b.rows)
		}
		input = append(input, proto.InputColumn{Name: c.name, Data: c.data})
	}
	return input
}

// encode gives the block in ClickHouse's Native format. A column of another
// length than the block is an error here, before anything is sent.
func (b *block) encode() ([]byte, error) {
	b.buf.Reset()
	input := b.input()
	head := proto.Block{Columns: len(input), Rows: b.rows}
	if err := head.EncodeRawBlock(&b.buf, 0, input); err != nil {
		return nil, fmt.Errorf("encode %d rows of %s: %w", b.rows, b.table, err)
	}
	return b.buf.Buf, nil
}
