package otlp

import (
	"context"
	"io"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Memory is reserved as a request arrives, so that nobody holds what it only
// announced: firstReserve bytes of buffer, then middle, then all of it. Each of
// these has a room of its own, and who waits for a higher one holds a lower one
// only. So those that wait never hold each other up, and large requests keep no
// small ones out.
const (
	firstReserve = 32 << 10
	middle       = 128 << 10
	large        = 2 << 20 // where it is not known how large: more than most need
)

// withParts is about how much memory a request takes for each of its bytes: its
// parts, and then the messages for Kafka, are about as large again.
const withParts = 2

// room is a part of the budget, for requests that hold up to limit.
type room struct {
	*semaphore.Weighted
	size, limit int64
}

// budget bounds the bytes of all requests in memory.
type budget struct {
	rooms [3]room // smallest limit first
	max   int64
	wait  time.Duration
	used  atomic.Int64
}

func newBudget(most int64, wait time.Duration) *budget {
	b := &budget{max: most, wait: wait}
	for i, limit := range []int64{withParts * firstReserve, withParts * (middle + 1), math.MaxInt64} {
		size := most / 4
		if i == len(b.rooms)-1 {
			size = most - 2*(most/4)
		}
		b.rooms[i] = room{semaphore.NewWeighted(size), size, limit}
	}
	return b
}

// hold is what one request has of the budget.
type hold struct {
	budget *budget
	room   int // in which it holds n
	n      int64
}

// reserve makes the hold at least n bytes, or as many as its room has, and waits
// a moment for them.
func (h *hold) reserve(ctx context.Context, n int64) *failure {
	to := h.room
	for n > h.budget.rooms[to].limit {
		to++
	}
	more := min(n, h.budget.rooms[to].size)
	if to == h.room {
		more -= h.n
	}
	if more <= 0 {
		return nil
	}
	if f := h.budget.acquire(ctx, &h.budget.rooms[to], more); f != nil {
		return f
	}
	if to != h.room {
		h.release()
	}
	h.room = to
	h.n += more
	h.budget.used.Add(more)
	return nil
}

// shrink gives back what is more than n bytes.
func (h *hold) shrink(n int64) {
	if less := h.n - n; less > 0 {
		h.budget.rooms[h.room].Release(less)
		h.budget.used.Add(-less)
		h.n = n
	}
}

func (h *hold) release() { h.shrink(0) }

func (b *budget) acquire(ctx context.Context, r *room, n int64) *failure {
	if r.TryAcquire(n) {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	if r.Acquire(wait, n) == nil {
		return nil
	}
	if ctx.Err() != nil {
		return failed(kindCanceled, "%v", ctx.Err())
	}
	return failed(kindLater, "requests in memory leave no room for this one within the %d bytes of collect.max_in_flight_bytes: wait and send again", b.max)
}

// readAll reads r to its end into buf, at most most bytes, and reserves before
// it makes buf larger. announced is how many bytes should come, or 0.
func (h *hold) readAll(ctx context.Context, r io.Reader, buf []byte, announced, most int) ([]byte, *failure) {
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			size := min(grown(cap(buf), announced), most+1)
			if f := h.reserve(ctx, withParts*int64(size)); f != nil {
				return buf, f
			}
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > most {
			return buf, failed(kindTooLarge, "the request has more than %d bytes (collect.max_request_bytes): send smaller batches", most)
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return buf, readFailure(err)
		}
	}
}

// grown is the next size of a buffer of size bytes, with room for one byte more
// than were announced, which finds the end.
func grown(size, announced int) int {
	switch {
	case size < firstReserve:
		return firstReserve
	case announced > size && (announced < middle || size >= middle):
		return announced + 1
	case size < middle:
		return middle
	case size < large:
		return large
	}
	return math.MaxInt - 1
}
