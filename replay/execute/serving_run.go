package execute

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Run runs a prepared leg to its first token, by this process's own clock. The
// engine's own wait and prefill are taken where its metrics hold this request
// alone; of a fetch only the prefill is, for engines count a load as a wait or as
// work, as they are made.
func (e *Serving) Run(ctx context.Context, leg Leg) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("run leg %s: %w", leg.ID, err)
	}
	e.mu.Lock()
	r := e.runs[leg.ID]
	e.mu.Unlock()
	if r == nil {
		return Result{}, fmt.Errorf("run leg %s: it was not prepared", leg.ID)
	}
	limited, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	out, err := e.measure(limited, &leg, r)
	if err != nil {
		e.debts.owe(leg.ID, r.spent)
		return Result{}, e.failed(ctx, &leg, "run", err)
	}
	return out, nil
}

func (e *Serving) measure(ctx context.Context, leg *Leg, r *servingRun) (out Result, err error) {
	if err := e.gate(ctx, r.worker); err != nil {
		return out, err
	}
	running, waiting, err := r.worker.engine.load(ctx)
	if err != nil {
		return out, err
	}
	a, seen, err := watched(ctx, r.worker.engine, r.question(r.prompt))
	if !a.first.IsZero() {
		r.charge(&a, &seen)
	}
	if err != nil {
		return out, err
	}
	if err := e.check(r, &seen); err != nil {
		return out, err
	}
	out.State = stateOf(running+waiting, leg.Path)
	if r.fetched == 0 {
		out.Observed.GPUQueue, out.Observed.ExposedStall, out.Observed.Restore = seen.queue, schema.Some(0.0), schema.Some(0.0)
		if math.IsNaN(out.State.GPUQueue) && seen.queue.OK {
			// The engine does not say how long its work will take: the wait that the
			// leg saw stands for it.
			out.State.GPUQueue = seen.queue.V
		}
	}
	out.Observed.Prefill, out.Observed.TTFT = seen.prefill, since(a.sent, a.first)
	out.StartNanos, out.EndNanos, out.Cost = a.sent.UnixNano(), a.first.UnixNano(), r.spent
	return out, nil
}

// charge adds what the leg's own request took.
func (r *servingRun) charge(a *served, seen *reused) {
	took := a.first.Sub(a.sent).Seconds()
	if seen.prefill.OK && seen.prefill.V > 0 {
		took = seen.prefill.V
	}
	r.spent.GPUSeconds += took
	if r.fetched > 0 {
		r.spent.Bytes += r.bytes * min(1, float64(max(0, seen.external))/float64(r.fetched))
	}
}

// check says why what ran is no measurement of the leg.
func (e *Serving) check(r *servingRun, seen *reused) error {
	if seen.counted && seen.others > 0 && e.cfg.MaxBusy == 0 {
		return fmt.Errorf("%w: worker %s was quiet when the leg began, and worked for others beside it", ErrUnavailable, r.worker.Name)
	}
	err := seen.forced(r.resident, r.fetched, r.facts.block, e.cfg.ExternalBlock)
	if err != nil && r.fetched > 0 {
		r.worker.forget()
	}
	return err
}

// Cleanup gives the worker back. Nothing that the leg left can be hit again: its
// salt, or its tokens, were its own.
func (e *Serving) Cleanup(_ context.Context, leg Leg) error {
	e.mu.Lock()
	r := e.runs[leg.ID]
	delete(e.runs, leg.ID)
	e.mu.Unlock()
	if r != nil {
		<-r.worker.lease
	}
	return nil
}

// failed says what failed. A server that did not answer in time is not available.
func (e *Serving) failed(ctx context.Context, leg *Leg, step string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w: no end within %v: %w", ErrUnavailable, e.cfg.Timeout, err)
	}
	return fmt.Errorf("%s leg %s: %w", step, leg.ID, err)
}
