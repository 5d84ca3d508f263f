package live

import (
	"context"
	"slices"
	"sync"
	"time"
)

// line is the queue of a worker: one request at a time, in order.
type line struct {
	mu      sync.Mutex
	waiting []*place // the first has the worker
}

// place is a request's place in the line.
type place struct {
	line  *line
	turn  chan struct{} // closed when it has the worker
	began time.Time     // since when it has the worker
	work  float64       // seconds that it is expected to keep it
}

// join takes a place at the end.
func (l *line) join(work float64) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{line: l, turn: make(chan struct{}), work: work}
	l.waiting = append(l.waiting, p)
	l.admit()
	return p
}

// admit gives the worker to the first. The lock is held.
func (l *line) admit() {
	if len(l.waiting) == 0 || !l.waiting[0].began.IsZero() {
		return
	}
	first := l.waiting[0]
	first.began = time.Now()
	close(first.turn)
}

// wait waits for the worker, and says since when the place has it.
func (p *place) wait(ctx context.Context) (time.Time, error) {
	select {
	case <-p.turn:
		return p.began, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// leave gives up the worker, or the place.
func (p *place) leave() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, p); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.admit()
	}
}

// backlog is the seconds that the worker is expected to need for what is in the
// line.
func (l *line) backlog() (sum float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.waiting {
		left := p.work
		if !p.began.IsZero() {
			left = max(0, left-time.Since(p.began).Seconds())
		}
		sum += left
	}
	return sum
}
