package executetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Fake is an executor in memory: a leg takes what its candidate predicts on an
// idle fleet. The zero value is ready.
type Fake struct {
	Clock  func() int64                                     // Unix nanoseconds; nil for a fixed instant
	Fail   func(leg execute.Leg) error                      // nil for never
	Block  func(ctx context.Context, leg execute.Leg) error // nil for no wait
	Prep   execute.Cost                                     // of each Prepare
	Probed func(leg execute.Leg) execute.State              // nil for idle

	mu      sync.Mutex
	ran     map[string]int
	cleaned map[string]int
}

// Prepare costs Prep.
func (f *Fake) Prepare(context.Context, execute.Leg) (execute.Cost, error) { return f.Prep, nil }

// Cleanup counts.
func (f *Fake) Cleanup(_ context.Context, leg execute.Leg) error {
	f.count(&f.cleaned, leg.ID)
	return nil
}

// State is what Probed says.
func (f *Fake) State(_ context.Context, leg execute.Leg) (execute.State, error) {
	if f.Probed == nil {
		return execute.State{}, nil
	}
	return f.Probed(leg), nil
}

// Run takes what the candidate predicts with an empty queue and link. A worker
// whose name begins with "no" is refused.
func (f *Fake) Run(ctx context.Context, leg execute.Leg) (execute.Result, error) {
	if err := ctx.Err(); err != nil {
		return execute.Result{}, err
	}
	if f.Block != nil {
		if err := f.Block(ctx, leg); err != nil {
			return execute.Result{}, err
		}
	}
	if strings.HasPrefix(leg.Candidate.Worker, "no") {
		return execute.Result{}, fmt.Errorf("worker %q: %w", leg.Candidate.Worker, execute.ErrRefused)
	}
	if f.Fail != nil {
		if err := f.Fail(leg); err != nil {
			return execute.Result{}, err
		}
	}
	f.count(&f.ran, leg.ID)
	start := int64(1e18)
	if f.Clock != nil {
		start = f.Clock()
	}
	ttft := execute.Predict(&leg.Candidate, leg.Decision, execute.State{})
	if math.IsNaN(ttft) {
		ttft = 1
	}
	return execute.Result{
		StartNanos: start, EndNanos: start + int64(ttft*1e9),
		Observed: schema.Observed{TTFT: schema.Some(ttft)},
		Cost:     leg.Estimate(),
	}, nil
}

func (f *Fake) count(at *map[string]int, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *at == nil {
		*at = map[string]int{}
	}
	(*at)[id]++
}

// Ran is how often each leg gave a result, by id.
func (f *Fake) Ran() map[string]int { return f.copy(&f.ran) }

// Cleaned is how often each leg was cleaned up, by id.
func (f *Fake) Cleaned() map[string]int { return f.copy(&f.cleaned) }

func (f *Fake) copy(from *map[string]int) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]int{}
	for k, v := range *from {
		out[k] = v
	}
	return out
}
