package execute

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Run runs a prepared leg to its first token, by this process's own clock: the
// transfer over the link, then the restoration (the server's own restore_ms hides
// its wait for the batch under way), then the wait until the server begins, and
// the prefill. They follow each other, so all of the transfer is exposed.
func (e *Llama) Run(ctx context.Context, leg Leg) (Result, error) {
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

func (e *Llama) measure(ctx context.Context, leg *Leg, r *llamaRun) (out Result, err error) {
	if err := e.gate(ctx, r.worker); err != nil {
		return out, err
	}
	before, err := r.worker.client.Metrics(ctx)
	if err != nil {
		return out, err
	}
	out.State = State{Flows: math.NaN()}
	if before.Processing+before.Deferred > 0 {
		out.State.GPUQueue = e.wait(r.worker.Name)
	}
	start := time.Now()
	if r.tier != nil {
		out.State.Flows, err = r.fetch(ctx, start, &out.Observed)
		if err != nil {
			return out, err
		}
	}
	done, err := r.worker.client.Complete(ctx, llama.Completion{Prompt: r.prompt, Slot: r.worker.Slot, Generate: 1})
	if err != nil {
		return out, err
	}
	r.observe(start, done, &out.Observed)
	if done.Cached != int64(r.held) || done.Computed != int64(len(r.prompt)-r.held) {
		return out, fmt.Errorf("%w: the server reused %d tokens and computed %d, and a %s reuses %d and computes %d",
			ErrNotForced, done.Cached, done.Computed, leg.Path, r.held, len(r.prompt)-r.held)
	}
	if err := e.alone(ctx, r.worker, before, done); err != nil {
		return out, err
	}
	if math.IsNaN(out.State.GPUQueue) {
		// The engine does not say how long its work will take: the wait that the leg
		// saw stands for it.
		out.State.GPUQueue = out.Observed.GPUQueue.V
	}
	out.StartNanos, out.EndNanos, out.Cost = start.UnixNano(), done.First.UnixNano(), r.spent
	return out, nil
}

// fetch moves the saved prefix over the link, and restores it.
func (r *llamaRun) fetch(ctx context.Context, start time.Time, o *schema.Observed) (flows float64, err error) {
	in, err := os.Open(r.tier.path(r.key))
	if err != nil {
		return 0, fmt.Errorf("replay namespace: %w", err)
	}
	defer in.Close()
	to, err := os.OpenFile(filepath.Join(r.worker.SaveDir, r.file), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("the server's directory: %w", err)
	}
	m, err := r.tier.Link.Move(ctx, to, in)
	r.spent.Bytes += float64(m.Bytes)
	if err := errors.Join(err, to.Close()); err != nil {
		return 0, err
	}
	arrived := time.Now()
	o.Bytes, o.TransferQueue = schema.Some(m.Bytes), since(start, m.First)
	o.TransferStart, o.Transfer, o.ExposedStall = o.TransferQueue, since(m.First, arrived), since(start, arrived)
	restored, err := r.worker.client.Restore(ctx, r.worker.Slot, r.file)
	o.Restore = since(arrived, time.Now())
	r.spent.GPUSeconds += o.Restore.V
	if err != nil {
		if errors.Is(err, llama.ErrRefused) {
			err = errors.Join(err, r.tier.drop(r.key))
		}
		return 0, err
	}
	if restored.Tokens != int64(r.held) {
		return 0, fmt.Errorf("%w: %d tokens were restored of %d", ErrNotForced, restored.Tokens, r.held)
	}
	return float64(m.Others), nil
}

// observe fills in the stages after the fetch.
func (r *llamaRun) observe(start time.Time, done llama.Completed, o *schema.Observed) {
	o.GPUQueue, o.Prefill, o.TTFT = since(done.Sent, done.Begun), since(done.Begun, done.First), since(start, done.First)
	if r.tier == nil {
		o.ExposedStall, o.Restore = schema.Some(0.0), schema.Some(0.0)
	}
	r.spent.GPUSeconds += o.Prefill.V
}

func since(a, b time.Time) schema.Seconds { return schema.Some(b.Sub(a).Seconds()) }

// alone checks that nobody else's work was done during the leg: the engine mixes
// batches, so a leg beside others took longer than its path does.
func (e *Llama) alone(ctx context.Context, w *llamaWorker, before llama.Metrics, done llama.Completed) error {
	if e.cfg.MaxBusy > 0 {
		return nil
	}
	after, err := w.client.Metrics(ctx)
	if err != nil {
		return err
	}
	others := after.Prompt - before.Prompt - float64(done.Computed) + max(0, after.Generated-before.Generated-1)
	if others > 0 {
		return fmt.Errorf("%w: worker %s was quiet when the leg began, and did %.0f tokens of others beside it", ErrUnavailable, w.Name, others)
	}
	return nil
}

// Cleanup empties the slot, removes the leg's file, and gives the slot back.
func (e *Llama) Cleanup(ctx context.Context, leg Leg) error {
	return e.release(ctx, leg.ID)
}

func (e *Llama) release(ctx context.Context, id string) error {
	e.mu.Lock()
	r := e.runs[id]
	delete(e.runs, id)
	e.mu.Unlock()
	if r == nil {
		return nil
	}
	defer func() { <-r.worker.lease }()
	if r.pinned {
		r.tier.unpin(r.key)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.GateWait)
	defer cancel()
	err := r.worker.client.Erase(ctx, r.worker.Slot)
	if gone := os.Remove(filepath.Join(r.worker.SaveDir, r.file)); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err != nil {
		return fmt.Errorf("clean up leg %s: %w", id, err)
	}
	return nil
}

// failed says what failed. A server that did not answer in time is not available.
func (e *Llama) failed(ctx context.Context, leg *Leg, step string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w: no end within %v: %w", ErrUnavailable, e.cfg.Timeout, err)
	}
	return fmt.Errorf("%s leg %s: %w", step, leg.ID, mapped(err))
}
