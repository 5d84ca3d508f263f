package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	batchItems = 25
	retryPause = 20 * time.Millisecond
	pulse      = 50 * time.Millisecond // of the generator
	// sentTwice is how many batches there are to one that its client sends again
	// though it was accepted.
	sentTwice = 10
)

// sender sends a story, each batch until it is accepted, and knows what was.
type sender struct {
	story    *story
	stream   *stream
	rate     int    // requests a second
	otlp     []door // each its own connection, used by one batch at a time
	direct   door
	begun    chan struct{} // has something while exports begin
	inFlight atomic.Int64  // spans sent and not yet answered
	failed   atomic.Int64  // spans sent again, for an export had failed
	doubled  atomic.Int64  // spans sent again though they were accepted

	mu       sync.Mutex
	accepted map[item]struct{}
	lastErr  error
}

func newSender(y *story, rate int) *sender {
	return &sender{story: y, stream: newStream(y), rate: rate, begun: make(chan struct{}, 1), accepted: map[item]struct{}{}}
}

// run sends until stop is closed, and then what is left of the requests it has
// begun.
func (s *sender) run(ctx context.Context, stop <-chan struct{}) error {
	group, ctx := errgroup.WithContext(ctx)
	spans, parts := make(chan []item), make(chan []item)
	for i, d := range s.otlp {
		group.Go(func() error { return s.work(ctx, d, spans, rand.New(rand.NewPCG(s.story.seed, uint64(i)))) })
	}
	group.Go(func() error { return s.work(ctx, s.direct, parts, rand.New(rand.NewPCG(s.story.seed, 1<<32))) })
	group.Go(func() error {
		defer close(spans)
		defer close(parts)
		for ticker := time.NewTicker(pulse); ; {
			var due []item
			for range max(1, s.rate*int(pulse)/int(time.Second)) {
				due = append(due, s.stream.next()...)
			}
			if err := deal(ctx, due, spans, parts); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-stop:
				return deal(ctx, s.stream.rest(), spans, parts)
			case <-ticker.C:
			}
		}
	})
	return group.Wait()
}

// deal gives batches to the doors that they go through.
func deal(ctx context.Context, items []item, spans, parts chan<- []item) error {
	var batches [2][]item
	send := func(i int) error {
		if len(batches[i]) == 0 {
			return nil
		}
		select {
		case []chan<- []item{spans, parts}[i] <- batches[i]:
			batches[i] = nil
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, it := range items {
		i := 0
		switch it.piece {
		case pieceLoad, pieceLoad2, pieceBad, pieceGarbage:
			i = 1
		}
		if batches[i] = append(batches[i], it); len(batches[i]) == batchItems {
			if err := send(i); err != nil {
				return err
			}
		}
	}
	if err := send(0); err != nil {
		return err
	}
	return send(1)
}

// work sends batches through one door, and now and then one of the last again.
func (s *sender) work(ctx context.Context, d door, batches <-chan []item, r *rand.Rand) error {
	var last [][]item
	for batch := range batches {
		if err := s.until(ctx, d, batch, false); err != nil {
			return err
		}
		if last = append(last, batch); len(last) > 40 {
			last = last[1:]
		}
		if r.IntN(sentTwice) == 0 {
			if err := s.until(ctx, d, last[r.IntN(len(last))], true); err != nil {
				return err
			}
		}
	}
	return nil
}

// until sends a batch until it is accepted.
func (s *sender) until(ctx context.Context, d door, batch []item, again bool) error {
	for try := 0; ; try++ {
		switch {
		case try == 1: // however often
			s.failed.Add(int64(len(batch)))
		case again && try == 0:
			s.doubled.Add(int64(len(batch)))
		}
		refused, retry, err := s.export(ctx, d, batch)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			return s.accept(batch, refused)
		case !retry:
			return fmt.Errorf("a batch of %d was refused for good: %w", len(batch), err)
		}
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

func (s *sender) export(ctx context.Context, d door, batch []item) (int64, bool, error) {
	s.inFlight.Add(int64(len(batch)))
	defer s.inFlight.Add(-int64(len(batch)))
	select {
	case s.begun <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, exportLimit)
	defer cancel()
	return d(ctx, s.story, batch)
}

// accept keeps what a door said it has. What is poison must have been refused, and
// nothing else.
func (s *sender) accept(batch []item, refused int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	poison := int64(0)
	for _, it := range batch {
		if it.piece == piecePoison {
			poison++
		}
		s.accepted[it] = struct{}{}
	}
	if refused != poison {
		return fmt.Errorf("%d of %d spans were refused, of which %d are poison", refused, len(batch), poison)
	}
	return nil
}

func (s *sender) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// since says how many items are missing until n more are accepted.
func (s *sender) since(before, n int) error {
	if missing := before + n - s.count(); missing > 0 {
		return fmt.Errorf("%d more are to be accepted", missing)
	}
	return nil
}
