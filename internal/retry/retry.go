// Package retry is how a step that may fail is tried again: with a wait that grows,
// is spread by chance, and ends with its context.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy is how long to wait between attempts. The wait doubles from First up to
// Most; the time waited is between a half and the whole of it, so that many that
// failed at the same moment do not come back at the same moment.
type Policy struct {
	First, Most time.Duration // Most 0: First, always
}

// Bound is the longest wait after so many failures; failures begins with 1.
func (p Policy) Bound(failures int) time.Duration {
	bound := p.First
	for range failures - 1 {
		if bound >= p.Most {
			break
		}
		bound = min(2*bound, p.Most)
	}
	return bound
}

// Wait is a wait after so many failures: Bound, spread.
func (p Policy) Wait(failures int) time.Duration { return Spread(p.Bound(failures)) }

// Spread is a time from half of d up to d, by chance.
func Spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1)
}

// Pause waits for d. It is false where ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Do calls step until it succeeds, its error is one that again does not take, or
// ctx ends. It gives the last error of step. note is told of each error that is
// followed by another attempt; nil tells nobody.
func Do(ctx context.Context, p Policy, again func(error) bool, note func(error), step func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := step(ctx)
		if err == nil || ctx.Err() != nil || !again(err) {
			return err
		}
		if note != nil {
			note(err)
		}
		if !Pause(ctx, p.Wait(failures)) {
			return err
		}
	}
}
