package app

import (
	"context"
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
)

// lockstep runs traffic as fast as the machine goes, but stops every few simulated
// seconds until what it sent has arrived, so that what depends on it (replays,
// prices) happens at the right simulated time.
type lockstep struct {
	traffic *traffic
	emitter *Emitter                        // nil: no spans are sent
	every   float64                         // simulated seconds between stops; +Inf: never
	replay  *simReplay                      // nil: none
	arrived func(ctx context.Context) error // waits until what was sent is in the tables; nil: does not wait
	stopped func(ctx context.Context, now float64) error
	tick    func(done, total int) // progress, requests; nil: none
}

// maxDrain bounds how long after the last arrival a run may go on, seconds.
const maxDrain = 3600.0

// run goes to the end: every request and leg has had its first token, and every
// span was accepted.
func (l *lockstep) run(ctx context.Context) error {
	t, limit := l.traffic, l.traffic.sim.End()+maxDrain
	for now := 0.0; !l.done(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		now += min(l.every, limit)
		outcomes, err := l.advance(ctx, now)
		if err != nil {
			return err
		}
		t.outcomes = append(t.outcomes, outcomes...)
		if l.emitter != nil {
			t.emit(ctx, l.emitter.Tracer(), outcomes)
		}
		if err := l.stop(ctx, now); err != nil {
			return err
		}
		if now > limit {
			return fmt.Errorf("scenario %s: %d of %d requests had no first token %v s after the last arrival",
				t.name.scenario, len(t.requests)-len(t.outcomes), len(t.requests), maxDrain)
		}
	}
	return l.flush(ctx)
}

func (l *lockstep) flush(ctx context.Context) error {
	if l.emitter == nil {
		return nil
	}
	return l.emitter.Flush(ctx)
}

func (l *lockstep) done() bool {
	return l.traffic.sim.Done() && (l.replay == nil || l.replay.idle())
}

func (l *lockstep) advance(ctx context.Context, until float64) ([]fleet.Outcome, error) {
	if l.replay != nil {
		return l.replay.advance(ctx, until)
	}
	return l.traffic.sim.Advance(until).Outcomes, nil
}

// stop waits for what was sent, and lets others act at this simulated time.
func (l *lockstep) stop(ctx context.Context, now float64) error {
	if l.tick != nil {
		l.tick(len(l.traffic.outcomes), len(l.traffic.requests))
	}
	if math.IsInf(l.every, 1) {
		return nil
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	if l.arrived != nil {
		if err := l.arrived(ctx); err != nil {
			return err
		}
	}
	if l.replay != nil {
		if err := l.replay.poll(ctx); err != nil {
			return err
		}
	}
	if l.stopped != nil {
		return l.stopped(ctx, now)
	}
	return nil
}
