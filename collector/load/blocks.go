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
		return newBlock("requests", keyColumns(), contractColumns(), placeColumns(), stageColumns(), candidateColumns())
	case shapeEngine:
		return newBlock("requests", keyColumns(), engineColumns())
	case shapeMoved:
		return newBlock("requests", keyColumns(), movedColumns())
	case shapeTransfer:
		return newBlock("transfers", spanColumns(), transferColumns())
	case shapeReplay:
		return newBlock("replays", spanColumns(), replayColumns(), placeColumns(), stageColumns())
	default:
		return newBlock("waiting", waitingColumns())
	}
}

// blocks collects rows into one block a shape and day: the tables have a
// partition a day, and ClickHouse refuses an insert into more than 100.
type blocks struct {
	open  map[blockKey]*block
	order []blockKey
	free  [shapes][]*block
}

type blockKey struct {
	shape shape
	day   int64
}

func newBlocks() *blocks { return &blocks{open: map[blockKey]*block{}} }

// add puts a row whose partition is that of the instant into its block.
func (b *blocks) add(s shape, nanos int64, r *row) {
	key := blockKey{s, dayNumber(nanos)}
	to := b.open[key]
	if to == nil {
		to = b.take(s)
		b.open[key] = to
		b.order = append(b.order, key)
	}
	to.add(r)
}

func (b *blocks) take(s shape) *block {
	if n := len(b.free[s]); n > 0 {
		to := b.free[s][n-1]
		b.free[s] = b.free[s][:n-1]
		return to
	}
	return newShape(s)
}

// reset empties all blocks and keeps a few for the next round.
func (b *blocks) reset() {
	const kept = 4
	for key, used := range b.open {
		used.reset()
		if len(b.free[key.shape]) < kept {
			b.free[key.shape] = append(b.free[key.shape], used)
		}
	}
	clear(b.open)
	b.order = b.order[:0]
}

const nanosADay = int64(24 * time.Hour)

// dayNumber is the days since 1970 of an instant in nanoseconds.
func dayNumber(nanos int64) int64 { return nanos / nanosADay }

// minuteStart is the start of the minute of an instant in nanoseconds, Unix
// seconds.
func minuteStart(nanos int64) int64 { return nanos / int64(time.Minute) * 60 }
