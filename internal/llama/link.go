package llama

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// linkSlice is the time on the wire of one piece of a transfer: flows take
	// turns by pieces, so this is how finely they share.
	linkSlice = 4 * time.Millisecond
	// linkBurst is how much time that passed unused between pieces is made up for:
	// on a busy machine a flow is woken late, and the link would lose rate.
	linkBurst = 250 * time.Millisecond
)

// Link is a link of a stated rate that concurrent transfers share: each waits for
// its turn with one piece at a time, so n of them get a n-th each. It is safe for
// concurrent use.
type Link struct {
	Name string
	rate float64 // bytes/s

	mu    sync.Mutex
	free  time.Time // when what was handed out has passed
	flows int
	moved int64
}

// NewLink makes a link of rate bytes a second.
func NewLink(name string, rate float64) (*Link, error) {
	if !(rate >= 1) {
		return nil, fmt.Errorf("link %q: a rate of %v bytes/s: give one of at least 1", name, rate)
	}
	return &Link{Name: name, rate: rate}, nil
}

// Rate is in bytes/s.
func (l *Link) Rate() float64 { return l.rate }

// Flows is how many transfers are on the link now.
func (l *Link) Flows() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flows
}

// Moved is how many bytes have gone over the link.
func (l *Link) Moved() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// Moved is what a transfer came to.
type Moved struct {
	Bytes  int64
	Others int       // transfers that were on the link when it came
	First  time.Time // first byte
	Last   time.Time // last byte
}

// Move copies all of r to w at the link's rate. It ends with the context.
func (l *Link) Move(ctx context.Context, w io.Writer, r io.Reader) (m Moved, err error) {
	l.mu.Lock()
	m.Others = l.flows
	if l.flows == 0 { // it was idle: nothing to make up for
		l.free = time.Now()
	}
	l.flows++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.flows--
		l.moved += m.Bytes
		l.mu.Unlock()
	}()
	piece := make([]byte, min(max(int(l.rate*linkSlice.Seconds()), 512), 4<<20))
	for {
		n, readErr := io.ReadFull(r, piece)
		if n > 0 {
			begin, end := l.reserve(n)
			if m.Bytes == 0 {
				m.First = begin
			}
			if err := sleepUntil(ctx, end); err != nil {
				return m, fmt.Errorf("transfer over %s: %w", l.Name, err)
			}
			if _, err := w.Write(piece[:n]); err != nil {
				return m, fmt.Errorf("transfer over %s: %w", l.Name, err)
			}
			m.Bytes += int64(n)
		}
		if readErr == io.EOF || readErr == io.ErrUnexpectedEOF {
			m.Last = time.Now()
			return m, nil
		}
		if readErr != nil {
			return m, fmt.Errorf("transfer over %s: %w", l.Name, readErr)
		}
	}
}

// reserve gives the time on the wire of the next n bytes.
func (l *Link) reserve(n int) (begin, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin = time.Now()
	if earliest := begin.Add(-linkBurst); l.free.Before(earliest) {
		l.free = earliest
	}
	if l.free.After(begin) {
		begin = l.free
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	return begin, l.free
}

func sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
