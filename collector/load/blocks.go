package load

import "time"

// shape is which columns of which table a block has.
type shape int

const (
	shapeContract shape = iota // requests, from contract spans
	shapeEngine                // requests, from engines' spans
	shapeMoved                 // requests, from transfer spans
	shapeTransfer
	shapeReplay
	shapeWaiting
	shapes
)

func newShape(s shape) *block {
	switch s {
	case shapeContract:
		direct, columns := newContractRows()
		b := newBlock("requests", columns)
		b.direct = direct
		return b
	case shapeEngine:
		return newBlock("requests", keyColumns(), engineColumns())
	case shapeMoved:
		return newBlock("requests", keyColumns(), movedColumns())
	case shapeTransfer:
		return newBlock("transfers", transferColumns())
	case shapeReplay:
		return newBlock("replays", spanColumns(), replayColumns(), placeColumns(), stageColumns())
	default:
		return newBlock("waiting", waitingColumns())
	}
}

// daysABlock is how many days the rows of a block are of at most: the tables
// have a partition a day, and ClickHouse refuses an insert into more than 100.
const daysABlock = 90

// blocks collects rows into blocks that can be inserted.
type blocks struct {
	filled []*block   // in the order in which they were begun
	shards int        // that rows are spread over
	open   []*block   // the last of each shape and shard
	free   [][]*block // empty, to be used again, likewise
}

func newBlocks() *blocks { return (&blocks{}).over(1) }

// over makes blocks for so many shards of those that hold nothing yet.
func (b *blocks) over(shards int) *blocks {
	n := shards * int(shapes)
	b.shards, b.open, b.free = shards, make([]*block, n), make([][]*block, n)
	return b
}

// add puts a row whose partition is that of the instant into a block.
func (b *blocks) add(s shape, nanos int64, r *row) {
	shard := 0
	if b.shards > 1 {
		shard = shardOf(r.home(s), b.shards)
	}
	at := shard*int(shapes) + int(s)
	day, to := dayNumber(nanos), b.open[at]
	if to == nil || !to.holds(day) {
		to = b.take(s, shard)
		b.open[at] = to
		b.filled = append(b.filled, to)
		to.holds(day)
	}
	to.add(r)
}

// holds says whether the block may have rows of the day, and notes that it has.
func (b *block) holds(day int64) bool {
	if day == b.day && len(b.days) > 0 {
		return true
	}
	if _, ok := b.days[day]; !ok && len(b.days) == daysABlock {
		return false
	}
	b.days[day], b.day = struct{}{}, day
	return true
}

func (b *blocks) take(s shape, shard int) *block {
	at := shard*int(shapes) + int(s)
	if n := len(b.free[at]); n > 0 {
		to := b.free[at][n-1]
		b.free[at] = b.free[at][:n-1]
		return to
	}
	to := newShape(s)
	to.shape, to.shard = s, shard
	return to
}

// reset empties all blocks and keeps one of each shape for the next round.
func (b *blocks) reset() {
	for _, used := range b.filled {
		at := used.shard*int(shapes) + int(used.shape)
		if len(b.free[at]) == 0 {
			used.reset()
			b.free[at] = append(b.free[at], used)
		}
	}
	b.filled = b.filled[:0]
	clear(b.open)
}

const nanosADay = int64(24 * time.Hour)

// dayNumber is the days since 1970 of an instant in nanoseconds.
func dayNumber(nanos int64) int64 { return nanos / nanosADay }

// minuteStart is the start of the minute of an instant in nanoseconds, Unix
// seconds.
func minuteStart(nanos int64) int64 { return nanos / int64(time.Minute) * 60 }
