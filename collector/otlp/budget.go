package otlp

import (
	"context"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Memory is reserved as a request arrives, so that nobody holds what it only
// announced: tiny bytes of buffer, then firstReserve, then middle, then all of it.
// Each of these has a room of its own, and who waits for a higher one holds a lower
// one only. So those that wait never hold each other up, and large requests keep no
// small ones out. Where a room is full, requests in it of which nothing comes are
// dropped for those that have something to send.
const (
	tiny         = 4 << 10
	firstReserve = 32 << 10
	middle       = 128 << 10
	large        = 2 << 20 // where it is not known how large: more than most need
)

// withParts is about how much memory a request takes for each of its bytes: its
// parts, and then the messages for Kafka, are about as large again.
const withParts = 2

// unzipping is about what a gzip reader takes: its window, its tables, its buffers.
const unzipping = 48 << 10

// room is a part of the budget, for requests that hold up to limit.
type room struct {
	*semaphore.Weighted
	size, limit int64
}

// budget bounds the bytes of all requests in memory.
type budget struct {
	rooms [4]room // smallest limit first
	max   int64
	wait  time.Duration
	used  atomic.Int64

	mu     sync.Mutex
	coming map[*incoming]struct{}
}

func newBudget(most int64, wait time.Duration) *budget {
	b := &budget{max: most, wait: wait, coming: map[*incoming]struct{}{}}
	limits := [...]int64{withParts * tiny, unzipping + withParts*firstReserve, unzipping + withParts*(middle+1), math.MaxInt64}
	sizes := [...]int64{most / 8, most / 4, most / 8, most - most/8 - most/4 - most/8}
	for i := range b.rooms {
		b.rooms[i] = room{semaphore.NewWeighted(sizes[i]), sizes[i], limits[i]}
	}
	return b
}

// hold is what one request has of the budget.
type hold struct {
	budget *budget
	from   *incoming // whose it is; nil: nobody's that could be dropped
	beside int64     // bytes beside the buffer: of a gzip reader
	room   int       // in which it holds n
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
	if f := h.budget.acquire(ctx, to, more); f != nil {
		return f
	}
	if to != h.room {
		h.release()
	}
	h.room = to
	h.n += more
	h.budget.used.Add(more)
	h.from.holds(h.room, h.n)
	return nil
}

// shrink gives back what is more than n bytes.
func (h *hold) shrink(n int64) {
	if less := h.n - n; less > 0 {
		h.budget.rooms[h.room].Release(less)
		h.budget.used.Add(-less)
		h.n = n
		h.from.holds(h.room, n)
	}
}

func (h *hold) release() { h.shrink(0) }

func (b *budget) acquire(ctx context.Context, in int, n int64) *failure {
	r := &b.rooms[in]
	if r.TryAcquire(n) {
		return nil
	}
	b.drop(in, n)
	again := time.AfterFunc(stall(in), func() { b.drop(in, n) })
	defer again.Stop()
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

// drop ends requests that stall in a room, or in any for -1, until n bytes will be
// free.
func (b *budget) drop(room int, n int64) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for in := range b.coming {
		if n <= 0 {
			return
		}
		n -= in.drop(room, now)
	}
}

// readAll reads r to its end into buf, at most most bytes, and reserves before
// it makes buf larger. announced is how many bytes should come, or 0.
func (h *hold) readAll(ctx context.Context, r io.Reader, buf []byte, announced, most int) ([]byte, *failure) {
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			size := min(grown(cap(buf), announced), most+1)
			if f := h.reserve(ctx, h.beside+withParts*int64(size)); f != nil {
				return buf, f
			}
			larger := append(newBuffer(size), buf...)
			keepBuffer(buf)
			buf = larger
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
	case size < tiny:
		return tiny
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
