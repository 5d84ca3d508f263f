package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/schema"
)

// serve runs a decided request to its end, and gives its part of the contract.
func (f *Fleet) serve(ctx context.Context, p *plan) (part schema.Part, err error) {
	defer p.place.leave()
	arrived := make(chan arrival, 1)
	if p.file != "" {
		go func() { arrived <- p.transfer(ctx) }()
	} else {
		arrived <- arrival{}
	}
	turn, err := p.place.wait(ctx)
	came := <-arrived
	if err = errors.Join(err, came.err); err != nil {
		return part, fmt.Errorf("request %s: %w", p.request.ID, err)
	}
	w, o := p.worker, &part.Observed
	ready := time.Now() // has the worker and the bytes
	if err := p.restore(ctx); err != nil {
		return part, fmt.Errorf("request %s: %w", p.request.ID, err)
	}
	done, err := w.server.Complete(ctx, llama.Completion{Prompt: p.prompt, Slot: p.slot, Generate: p.request.Generate})
	if err != nil {
		return part, fmt.Errorf("request %s: %w", p.request.ID, err)
	}
	// Of the block after those two prompts may share a token by chance.
	if done.Cached < p.held || done.Cached >= p.held+int64(f.cfg.BlockTokens) {
		return part, fmt.Errorf("request %s: the slot reused %d tokens, and a %s reuses %d", p.request.ID, done.Cached, p.chosen.Path, p.held)
	}
	part.Kind, part.RequestID, part.Decision = schema.KindContract, p.request.ID, p.decision
	part.StartNanos, part.EndNanos = p.at.UnixNano(), done.First.UnixNano()
	came.observe(p.at, o)
	p.stages(turn, ready, done, o)
	return part, f.keep(ctx, p)
}

// stages splits the time to the first token.
func (p *plan) stages(turn, ready time.Time, done llama.Completed, o *schema.Observed) {
	o.Prefill, o.TTFT = seconds(done.Begun, done.First), seconds(p.at, done.First)
	// A leg may be in the engine: the wait for it is a wait for the GPU too.
	queue := turn.Sub(p.at) + done.Begun.Sub(done.Sent)
	o.ExposedStall, o.Restore = schema.Some(0.0), schema.Some(0.0)
	if p.file != "" {
		o.ExposedStall, o.Restore = seconds(turn, ready), seconds(ready, done.Sent)
	} else {
		queue += done.Sent.Sub(ready)
	}
	o.GPUQueue = schema.Some(queue.Seconds())
}

func seconds(a, b time.Time) schema.Seconds { return schema.Some(b.Sub(a).Seconds()) }

// arrival is a transfer that has ended.
type arrival struct {
	moved llama.Moved
	err   error
}

func (a *arrival) observe(at time.Time, o *schema.Observed) {
	if a.moved.Bytes == 0 {
		return
	}
	o.Bytes = schema.Some(a.moved.Bytes)
	o.TransferQueue, o.Transfer = seconds(at, a.moved.First), seconds(a.moved.First, a.moved.Last)
	o.TransferStart = o.TransferQueue
}

// incoming is where a request's fetched state lies at its worker.
func (p *plan) incoming() string { return filepath.Join(p.worker.server.SaveDir, p.request.ID+".kv") }

// transfer moves the file over the worker's link.
func (p *plan) transfer(ctx context.Context) (a arrival) {
	defer os.Remove(p.file)
	in, err := os.Open(p.file)
	if err != nil {
		return arrival{err: err}
	}
	defer in.Close()
	out, err := os.Create(p.incoming())
	if err != nil {
		return arrival{err: err}
	}
	a.moved, a.err = p.worker.link.Move(ctx, out, in)
	a.err = errors.Join(a.err, out.Close())
	return a
}

// restore puts what was fetched into the slot; a slot of which nothing is reused is
// emptied, or what it happens to hold would be.
func (p *plan) restore(ctx context.Context) error {
	switch {
	case p.file != "":
		defer os.Remove(p.incoming())
		_, err := p.worker.server.Restore(ctx, p.slot, filepath.Base(p.incoming()))
		return err
	case p.held == 0:
		return p.worker.server.Erase(ctx, p.slot)
	}
	return nil
}

// keep saves the prompt's blocks to the tier, after the first token and before the
// worker goes on: first the slot is cut back to them.
func (f *Fleet) keep(ctx context.Context, p *plan) error {
	s, blocks := p.worker.server, p.request.Blocks
	if len(blocks) == 0 {
		return nil
	}
	whole := p.prompt[:len(blocks)*f.cfg.BlockTokens]
	if _, err := s.Complete(ctx, llama.Completion{Prompt: whole, Slot: p.slot}); err != nil {
		return fmt.Errorf("save request %s: %w", p.request.ID, err)
	}
	name := nameOf(blocks)
	f.mu.Lock()
	_, there := f.tier.files[name]
	f.mu.Unlock()
	if there {
		return nil
	}
	kept, err := s.Save(ctx, p.slot, name)
	if err != nil {
		return fmt.Errorf("save request %s: %w", p.request.ID, err)
	}
	if err := os.Rename(filepath.Join(s.SaveDir, name), f.tier.path(name)); err != nil {
		return fmt.Errorf("save request %s: %w", p.request.ID, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tier.add(name, saved{blocks: blocks, bytes: kept.Bytes})
}
