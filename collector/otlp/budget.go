package otlp

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Memory is reserved as a request arrives, so that nobody holds what it only
// announced. One that turns out large then reserves all of it at once, from
// three quarters that are for large ones: those that wait do not hold each other
// up, and the rest stays for small ones.
const (
	firstReserve = 32 << 10 // bytes of buffer
	large        = 256 << 10
)

// withParts is about how much memory a request takes for each of its bytes: its
// parts, and then the messages for Kafka, are about as large again.
const withParts = 2

// room is a part of the budget.
type room struct {
	*semaphore.Weighted
	size int64
}

func newRoom(size int64) *room { return &room{semaphore.NewWeighted(size), size} }

// budget bounds the bytes of all requests in memory.
type budget struct {
	small, large *room
	max          int64
	wait         time.Duration
	used         atomic.Int64
}

func newBudget(most int64, wait time.Duration) *budget {
	return &budget{small: newRoom(most / 4), large: newRoom(most - most/4), max: most, wait: wait}
}

// hold is what one request has of the budget.
type hold struct {
	budget *budget
	room   *room
	n      int64
}

// reserve makes the hold at least n bytes, or as many as its room has, and waits
// a moment for them.
func (h *hold) reserve(ctx context.Context, n int64) *failure {
	to := h.budget.small
	if n > large || h.room == h.budget.large {
		to = h.budget.large
	}
	more := min(n, to.size)
	if h.room == to {
		more -= h.n
	}
	if more <= 0 {
		return nil
	}
	if f := h.budget.acquire(ctx, to, more); f != nil {
		return f
	}
	if h.room != to {
		h.release()
	}
	h.room = to
	h.n += more
	h.budget.used.Add(more)
	return nil
}

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

func (h *hold) release() {
	if h.room == nil {
		return
	}
	h.room.Release(h.n)
	h.budget.used.Add(-h.n)
	h.room, h.n = nil, 0
}

// readAll reads r to its end into buf, at most most bytes, and reserves before
// it makes buf larger. announced is how many bytes should come, or 0.
func (h *hold) readAll(ctx context.Context, r io.Reader, buf []byte, announced, most int) ([]byte, *failure) {
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			size := max(2*cap(buf), firstReserve)
			if withParts*size > large {
				size = max(size, announced+1) // and one byte for the end
			}
			size = min(size, most+1)
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
