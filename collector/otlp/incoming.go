package otlp

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// grace is how long a request may come as slowly as it likes.
	grace = 5 * time.Second
	// minRate is how fast it must have come by then, bytes/s: so slow a sender
	// would take an hour for a large request, and hold its memory.
	minRate = 4 << 10
	// stallAfter is how long nothing came of a request that is dropped where
	// others need its memory. A small request comes at once with its headers, so
	// one that began and has no more than that is dropped sooner.
	stallAfter      = 250 * time.Millisecond
	smallStallAfter = 25 * time.Millisecond
	// moveBy is the least by which a deadline is moved: moving costs a message.
	moveBy = time.Second
	// maxDiscard bounds what is read of a body that is too large, so that a sender
	// that reads the answer after it has sent everything gets it.
	maxDiscard = 128 << 20
)

var errDropped = errors.New("nothing came for a while, and others needed the memory")

// incoming is the body of a request that still comes. It ends the reading where it
// comes too slowly, or where it stalls while others need its memory.
type incoming struct {
	body    io.Reader
	control *http.ResponseController
	budget  *budget
	http1   bool
	timeout time.Duration // for all of it
	grace   time.Duration // for its first bytes

	mu       sync.Mutex
	room     int   // of the budget, in which it holds n
	n        int64 // bytes
	reading  bool
	since    time.Time // when it began, without the time that it was not read in
	last     time.Time // when reading began or something came
	bytes    int64     // that came
	deadline time.Time
	dropped  bool
	ended    bool
}

// comes begins with a request.
func (r *Receiver) comes(w http.ResponseWriter, q *http.Request) *incoming {
	now := time.Now()
	in := &incoming{body: q.Body, control: http.NewResponseController(w), budget: r.budget, http1: q.ProtoMajor == 1,
		timeout: r.cfg.ReadTimeout, grace: r.grace, since: now, last: now}
	in.extend()
	r.budget.mu.Lock()
	r.budget.coming[in] = struct{}{}
	r.budget.mu.Unlock()
	return in
}

// end must be called before the request's handler returns.
func (in *incoming) end() {
	in.budget.mu.Lock()
	delete(in.budget.coming, in)
	in.budget.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
}

// holds notes what the request has of the budget.
func (in *incoming) holds(room int, n int64) {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.room, in.n = room, n
}

// Read is of io.Reader.
func (in *incoming) Read(b []byte) (int, error) {
	in.mu.Lock()
	now := time.Now()
	in.since = in.since.Add(now.Sub(in.last))
	in.last, in.reading = now, true
	in.extend()
	in.mu.Unlock()
	n, err := in.body.Read(b)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last, in.reading = time.Now(), false
	in.bytes += int64(n)
	switch {
	case err == io.EOF && in.http1:
		// The deadline is the connection's: it would end the wait for Kafka too.
		_ = in.control.SetReadDeadline(time.Time{})
	case err != nil && err != io.EOF && in.dropped:
		return n, errDropped
	}
	return n, err
}

// extend moves the deadline to where the request must have sent its next byte.
func (in *incoming) extend() {
	allowed := min(in.timeout, in.grace+time.Duration(float64(in.bytes)/minRate*float64(time.Second)))
	to := in.since.Add(allowed)
	if !in.dropped && to.Sub(in.deadline) >= moveBy {
		in.deadline = to
		_ = in.control.SetReadDeadline(to)
	}
}

// stall is stallAfter for a room.
func stall(room int) time.Duration {
	if room == 0 {
		return smallStallAfter
	}
	return stallAfter
}

// drop ends the reading of a request that stalls in that room of the budget, or in
// any for -1, and gives what it will release.
func (in *incoming) drop(room int, now time.Time) int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	stalls := in.reading && now.Sub(in.last) >= stall(in.room) && (room < 0 || room == in.room)
	if !stalls || in.dropped || in.ended {
		return 0
	}
	in.dropped = true
	_ = in.control.SetReadDeadline(time.Unix(1, 0)) // past: what is being read ends now
	return max(in.n, 1)
}

// discard reads what is left of a body that is too large, within bounds, for a
// sender that would take a closed connection for a failure to be tried again.
func (in *incoming) discard(q *http.Request) {
	if in.http1 && q.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, in, maxDiscard)
	}
}
