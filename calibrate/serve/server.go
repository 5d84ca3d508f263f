package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// lastFlush bounds the writing of statuses when a server ends.
const lastFlush = 5 * time.Second

// Server holds the newest document and answers for it. Make one with New.
type Server struct {
	polling sync.Mutex // one Poll at a time: Run's and a caller's take turns

	cfg      Config
	metrics  *metrics
	statuses statuses
	waiters  chan struct{} // a slot each
	done     chan struct{} // closed by Close
	end      sync.Once
	pricing  sync.Mutex // held while prices are refreshed
	priced   time.Time  // as RefreshPrices was given it; under pricing

	mu      sync.Mutex
	held    *publish.Published // nil: none yet; never changed once stored
	changed chan struct{}      // closed when held changes
	lastErr error              // of the last Poll
}

// New makes a server, which holds nothing before its first Poll.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, waiters: make(chan struct{}, cfg.MaxWaiters), done: make(chan struct{}), changed: make(chan struct{})}
	s.metrics = newMetrics(s)
	s.statuses = newStatuses(cfg.Status)
	return s, nil
}

// Close ends long polls and event streams, so that an http.Server can shut down;
// later ones are answered at once. Register it with http.Server.RegisterOnShutdown.
func (s *Server) Close() { s.end.Do(func() { close(s.done) }) }

// Held is the document that is given out; ok is false where there is none yet.
func (s *Server) Held() (held publish.Published, ok bool) {
	p, _ := s.now()
	if p == nil {
		return held, false
	}
	return *p, true
}

// Ready says why the server has nothing good to give out; nil where it has.
func (s *Server) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		if errors.Is(s.lastErr, publish.ErrNotFound) {
			return s.lastErr
		}
		return errors.Join(publish.ErrNotFound, s.lastErr)
	}
	return nil
}

func (s *Server) now() (held *publish.Published, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.changed
}

// Poll takes up the newest document of the store: once it has returned nil, that is
// what GET gives. It also writes the statuses that came in. A document that does
// not verify, or a store that went back, is an error, and what was held is kept. It may be called
// at any time, beside Run too.
func (s *Server) Poll(ctx context.Context) error {
	s.polling.Lock()
	defer s.polling.Unlock()
	err := s.statuses.sync(ctx, s.cfg.Now())
	s.metrics.failed("status", err)
	polled := s.poll(ctx)
	s.metrics.failed("poll", polled)
	s.mu.Lock()
	s.lastErr = polled
	s.mu.Unlock()
	return errors.Join(polled, err)
}

func (s *Server) poll(ctx context.Context) error {
	rows, err := s.cfg.Store.Newest(ctx, 1)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if held, _ := s.now(); held != nil {
			return fmt.Errorf("%w: the store is empty, and had revision %d, which is still given out: was the table dropped?", publish.ErrNotFound, held.Document.Revision)
		}
		return fmt.Errorf("%w: none is published yet; run kvwhatif calibrate", publish.ErrNotFound)
	}
	if err := coefficients.Verify([]byte(rows[0].Payload), rows[0].Signature, s.cfg.Keys...); err != nil {
		return fmt.Errorf("revision %d is not given out: %w; start serve with the key that calibrate signs with", rows[0].Revision, err)
	}
	found, err := publish.Decode(rows[0])
	if err != nil {
		return err
	}
	return s.take(found)
}

// take gives p out from now on, if it is newer.
func (s *Server) take(p publish.Published) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		switch old := s.held; {
		case p.Digest == old.Digest:
			return nil
		case p.Document.Revision <= old.Document.Revision:
			return fmt.Errorf("the store's newest coefficients are revision %d, and were revision %d, which is still given out: coordinators take no lower one; was the table restored from a backup? Publish until it is passed",
				p.Document.Revision, old.Document.Revision)
		}
	}
	s.held = &p
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Run polls and refreshes prices each PollEvery until ctx ends, then closes the
// server. Errors go to OnError: an outage of the store ends nothing.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	ticker := time.NewTicker(s.cfg.PollEvery)
	defer ticker.Stop()
	said := ""
	for {
		err := s.Poll(ctx)
		if _, held := s.Held(); held {
			_, priceErr := s.RefreshPrices(ctx, s.cfg.Now())
			err = errors.Join(err, priceErr)
		}
		if ctx.Err() != nil {
			return s.flush(ctx)
		}
		said = s.say(err, said)
		select {
		case <-ctx.Done():
			return s.flush(ctx)
		case <-ticker.C:
		}
	}
}

// say reports err once, until it changes.
func (s *Server) say(err error, said string) string {
	if err == nil {
		return ""
	}
	if text := err.Error(); text != said {
		s.cfg.OnError(fmt.Errorf("coefficient server: %w", err))
		return text
	}
	return said
}

func (s *Server) flush(ctx context.Context) error {
	s.polling.Lock()
	defer s.polling.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
	defer cancel()
	if err := s.statuses.flush(ctx); err != nil {
		s.cfg.OnError(fmt.Errorf("coefficient server, at its end: %w", err))
	}
	return nil
}
