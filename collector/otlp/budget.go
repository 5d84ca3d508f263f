package otlp

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// firstReserve is what a request of unknown size reserves before it is read:
// more than most need.
const firstReserve = 256 << 10

// withParts is about how much memory a request takes for each of its bytes: its
// parts, and then the messages for Kafka, are about as large again.
const withParts = 2

// budget bounds the bytes of all requests in memory.
type budget struct {
	room *semaphore.Weighted
	max  int64
	wait time.Duration
	used atomic.Int64
}

func newBudget(most int64, wait time.Duration) *budget {
	return &budget{room: semaphore.NewWeighted(most), max: most, wait: wait}
}

// hold is what one request has of the budget.
type hold struct {
	budget *budget
	n      int64
}

// reserve makes the hold at least n bytes, and waits a moment for them.
func (h *hold) reserve(ctx context.Context, n int64) *failure {
	n = min(n, h.budget.max) - h.n
	if n <= 0 {
		return nil
	}
	if !h.budget.room.TryAcquire(n) {
		wait, cancel := context.WithTimeout(ctx, h.budget.wait)
		defer cancel()
		if err := h.budget.room.Acquire(wait, n); err != nil {
			if ctx.Err() != nil {
				return failed(kindCanceled, "%v", ctx.Err())
			}
			return failed(kindLater, "%d bytes of requests are in memory, the most that collect.max_in_flight_bytes allows: wait and send again", h.budget.max)
		}
	}
	h.n += n
	h.budget.used.Add(n)
	return nil
}

func (h *hold) release() {
	h.budget.room.Release(h.n)
	h.budget.used.Add(-h.n)
	h.n = 0
}

// readAll reads r to its end into buf, at most most bytes, and reserves before
// it makes buf larger.
func (h *hold) readAll(ctx context.Context, r io.Reader, buf []byte, most int) ([]byte, *failure) {
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			size := min(max(2*cap(buf), 32<<10), most+1)
			if f := h.reserve(ctx, int64(size)); f != nil {
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
