package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/retry"
	"github.com/kvwhatif/kvwhatif/replay/execute"
)

// gate is an executor that runs legs while it is open only. A leg that comes
// otherwise meets a worker that is never idle, and one that was to start is not
// available: the runner tries both again.
type gate struct {
	inner *execute.Llama

	mu     sync.Mutex
	leave  context.Context // of legs that have not started; ends when the gate shuts
	shutIt context.CancelFunc
	active map[string]time.Time // legs that hold a slot, since when
	ran    []span
	spent  execute.Cost // by legs that ran, with their preparation
	owed   map[string]execute.Cost
}

// span is when a leg had a worker's slot.
type span struct {
	worker     string
	begin, end time.Time
}

func newGate(inner *execute.Llama) *gate {
	g := &gate{inner: inner, active: map[string]time.Time{}, owed: map[string]execute.Cost{}}
	g.open()
	g.shut()
	return g
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave, g.shutIt = context.WithCancel(context.Background())
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutIt()
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leave.Err() == nil
}

// State is the engine's while the gate is open.
func (g *gate) State(ctx context.Context, leg execute.Leg) (execute.State, error) {
	if !g.isOpen() {
		return execute.State{GPUQueue: math.Inf(1), Flows: math.Inf(1)}, nil
	}
	return g.inner.State(ctx, leg)
}

// Prepare prepares a leg unless the gate is shut, or shuts meanwhile.
func (g *gate) Prepare(ctx context.Context, leg execute.Leg) (execute.Cost, error) {
	g.mu.Lock()
	open := g.leave
	if open.Err() == nil {
		g.active[leg.ID] = time.Now()
	}
	g.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(open, cancel)()
	var cost execute.Cost
	err := open.Err()
	if err == nil {
		cost, err = g.inner.Prepare(ctx, leg)
	}
	if err != nil && open.Err() != nil {
		return cost, fmt.Errorf("%w: the gate shut: %w", execute.ErrUnavailable, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := g.owed[leg.ID]
	g.owed[leg.ID] = execute.Cost{GPUSeconds: sum.GPUSeconds + cost.GPUSeconds, Bytes: sum.Bytes + cost.Bytes}
	return cost, err
}

// Run runs a prepared leg, to its end where it has begun.
func (g *gate) Run(ctx context.Context, leg execute.Leg) (execute.Result, error) {
	if !g.isOpen() {
		return execute.Result{}, fmt.Errorf("%w: the gate shut", execute.ErrUnavailable)
	}
	r, err := g.inner.Run(ctx, leg)
	if err != nil {
		return r, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spent.GPUSeconds += g.owed[leg.ID].GPUSeconds + r.Cost.GPUSeconds
	g.spent.Bytes += g.owed[leg.ID].Bytes + r.Cost.Bytes
	delete(g.owed, leg.ID)
	return r, nil
}

// Cleanup notes when the leg had its slot.
func (g *gate) Cleanup(ctx context.Context, leg execute.Leg) error {
	err := g.inner.Cleanup(ctx, leg)
	g.mu.Lock()
	defer g.mu.Unlock()
	if begin, ok := g.active[leg.ID]; ok {
		g.ran = append(g.ran, span{leg.Candidate.Worker, begin, time.Now()})
		delete(g.active, leg.ID)
	}
	return err
}

// rest waits until no leg is under way.
func (g *gate) rest(ctx context.Context) error {
	for {
		g.mu.Lock()
		n := len(g.active)
		g.mu.Unlock()
		if n == 0 {
			return nil
		}
		if !retry.Pause(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// since gives the slots' spans that began after an instant, and what ran legs have
// cost so far.
func (g *gate) since(at time.Time) (out []span, spent execute.Cost) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.ran {
		if !s.begin.Before(at) {
			out = append(out, s)
		}
	}
	return out, g.spent
}
