package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/internal/retry"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Source gives decisions in the order of a log. Next waits for a batch, ends
// with its context, and gives io.EOF after the last.
type Source interface {
	Next(ctx context.Context) (Batch, error)
}

// Batch is some parts, and the way to say that they need not come again.
type Batch struct {
	Parts []*schema.Part
	Ack   func(ctx context.Context) error
}

// Run replays until the source or the context ends: first what the store still
// has, then what the source gives. Legs that a cancelled context cuts short stay
// in the store. It returns nil for both ends; an error is one of the store or of
// the source.
func (r *Runner) Run(ctx context.Context, src Source, ex execute.Executor) error {
	r.mu.Lock()
	r.runs = ex
	r.mu.Unlock()
	group, inner := errgroup.WithContext(ctx)
	watching, enough := context.WithCancel(inner)
	group.Go(func() error { return r.watch(watching) })
	legs, came := make(chan execute.Leg), make(chan struct{}, 1)
	group.Go(func() error { return r.read(inner, src, came) })
	group.Go(func() error {
		defer enough()
		defer close(legs)
		return r.feed(inner, came, legs)
	})
	for range r.cfg.Concurrency {
		group.Go(func() error {
			for leg := range legs {
				err := r.run(inner, ex, leg)
				r.handedOn(-1)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

func (r *Runner) now() int64 { return r.cfg.Now().UnixNano() }

// read takes decisions from the source into the queue.
func (r *Runner) read(ctx context.Context, src Source, came chan<- struct{}) error {
	defer close(came)
	for {
		batch, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read decisions: %w", err)
		}
		if err := r.Accept(r.now(), batch.Parts); err != nil {
			return err
		}
		if err := batch.Ack(ctx); err != nil && ctx.Err() == nil {
			// The legs are durable: decisions that come again give nothing.
			r.cfg.Logger.Warn("replay: offsets were not committed, the decisions will come again", "error", err)
		}
		select {
		case came <- struct{}{}:
		default: // it has been told already
		}
		if err := r.tidy(); err != nil {
			return err
		}
	}
}

// feed hands out legs as the budget allows, until the source has ended and
// nothing waits.
func (r *Runner) feed(ctx context.Context, came <-chan struct{}, legs chan<- execute.Leg) error {
	if err := r.again(ctx, func() error { return r.Flush(ctx, r.now()) }); err != nil {
		return err
	}
	r.stock(ctx, r.executor())
	tick := time.NewTicker(r.cfg.Retry)
	defer tick.Stop()
	for {
		due, err := r.Due(r.now())
		if err != nil {
			return err
		}
		r.handedOn(len(due))
		if err := hand(ctx, due, legs); err != nil {
			return err
		}
		if came == nil {
			if err := r.abandon(r.now()); err != nil || r.idle() {
				return err
			}
		}
		select {
		case _, open := <-came:
			if !open {
				came = nil // the source has ended
			}
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func hand(ctx context.Context, from []execute.Leg, to chan<- execute.Leg) error {
	for _, l := range from {
		select {
		case to <- l:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// tidy compacts the store when it has grown. A decision twice as old as the
// deadline allows is not drawn again, so it may be forgotten; without a deadline
// nothing may.
func (r *Runner) tidy() error {
	age := r.cfg.Limits.MaxAgeNanos
	if !r.store.full() {
		return nil
	}
	if age == 0 {
		return r.store.Forget(0)
	}
	return r.store.Forget(r.now() - 2*age)
}

// run runs one leg to its end, whatever it is. It returns an error only where
// the runner can not go on.
func (r *Runner) run(ctx context.Context, ex execute.Executor, leg execute.Leg) error {
	if why := r.wait(ctx, ex, &leg); why != "" {
		return r.drop(r.now(), leg, why, true)
	}
	result, err, cut := r.underWay(ctx, ex, leg)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // it stays in the store, for the next start; what has a result is kept
	case err != nil && errors.Is(cut, errKilled):
		return r.drop(r.now(), leg, dropKilled, false)
	case err != nil && errors.Is(cut, errHeld):
		r.putBack(leg)
		return nil
	case err != nil:
		r.cfg.Logger.Warn("replay: a leg gave no result", "leg", leg.ID, "path", leg.Path.String(), "error", err)
	}
	err = r.Finish(ctx, r.now(), leg, result, err)
	if !errors.Is(err, ErrNotEmitted) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err() // likewise
	}
	r.cfg.Logger.Warn("replay: the pipeline does not accept results, trying again", "error", err)
	return r.again(ctx, func() error { return r.send(ctx, r.now(), finished{leg, result}) })
}

// wait holds a leg back while the gate is shut, and says why it is not to run.
func (r *Runner) wait(ctx context.Context, ex execute.Executor, leg *execute.Leg) string {
	held := false
	defer func() { r.gate(&held, false) }()
	for {
		if r.Killed() != "" {
			return dropKilled
		}
		r.mu.Lock()
		late := r.ledger.Expired(leg.DecidedNanos, r.now())
		r.mu.Unlock()
		if late {
			return dropLate
		}
		if ctx.Err() != nil || r.open(ctx, ex, leg) {
			return ""
		}
		r.gate(&held, true)
		if !retry.Pause(ctx, r.cfg.Retry) {
			return ""
		}
	}
}

// open asks the gate. An executor that can not tell its load has no gate.
func (r *Runner) open(ctx context.Context, ex execute.Executor, leg *execute.Leg) bool {
	prober, ok := ex.(execute.Prober)
	if !ok || (r.cfg.Idle.MaxGPUQueue <= 0 && r.cfg.Idle.MaxFlows <= 0) {
		return true
	}
	state, err := prober.State(ctx, *leg)
	if errors.Is(err, execute.ErrNoState) {
		return true
	}
	if leg.Link == "" || math.IsNaN(state.Flows) {
		state.Flows = 0 // nothing is moved, or nobody counts what is
	}
	return err == nil && r.cfg.Idle.Open(state.GPUQueue, state.Flows)
}

// attempt prepares, runs and cleans up, and tries again while the executor is
// not available and the deadline allows.
func (r *Runner) attempt(ctx context.Context, ex execute.Executor, leg execute.Leg) (execute.Result, error) {
	for {
		result, err := r.once(ctx, ex, leg)
		if !errors.Is(err, execute.ErrUnavailable) || !retry.Pause(ctx, r.cfg.Retry) {
			return result, err
		}
		if why := r.wait(ctx, ex, &leg); why != "" {
			return result, fmt.Errorf("%s: %w", why, err)
		}
	}
}

func (r *Runner) once(ctx context.Context, ex execute.Executor, leg execute.Leg) (execute.Result, error) {
	defer func() {
		// A cancelled run has something to clean up too.
		if err := ex.Cleanup(context.WithoutCancel(ctx), leg); err != nil {
			r.cfg.Logger.Warn("replay: a leg was not cleaned up", "leg", leg.ID, "error", err)
		}
	}()
	if err := ctx.Err(); err != nil {
		return execute.Result{}, err
	}
	prepared, err := ex.Prepare(ctx, leg)
	if err != nil {
		return execute.Result{}, fmt.Errorf("prepare: %w", err)
	}
	r.mu.Lock()
	r.ledger.Charge(r.now(), charge(&leg, prepared))
	r.mu.Unlock()
	return ex.Run(ctx, leg)
}

// again repeats what was not emitted until it is, or the context ends.
func (r *Runner) again(ctx context.Context, f func() error) error {
	err := retry.Do(ctx, retry.Policy{First: r.cfg.Retry}, notEmitted, nil, func(context.Context) error { return f() })
	if notEmitted(err) {
		return ctx.Err()
	}
	return err
}

func notEmitted(err error) bool { return errors.Is(err, ErrNotEmitted) }
