package replay

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// tripped has the runner see production that is three times as slow beside legs.
func tripped(t *testing.T, r *Runner, now int64) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range 400 {
		at, took := now-200e9+int64(i)*4e8, 0.1+0.0001*float64(i%50)
		if i%4 == 0 {
			r.breaker.Ran(budget.Span{Worker: "w", Start: at, End: at + 1e8})
			took *= 3
		}
		r.breaker.Observe(budget.Seen{Start: at, End: at + 1e8, Worker: "w", Group: "g", TTFT: took})
	}
}

// TestTheBreakerHoldsLegs: it cuts short what runs, which waits again rather than
// being lost, and lets one leg at a time go on after the pause.
func TestTheBreakerHoldsLegs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := decisions(60)
		for _, p := range parts {
			p.StartNanos = time.Now().UnixNano()
			p.Observed.TTFT = schema.Seconds{} // production of this test is what tripped says
		}
		out := &sink{}
		r := newRunner(t, NewMemoryStore(), out, func(c *Config) { c.Breaker, c.Concurrency = budget.DefaultBreaker(), 2 })
		var mu sync.Mutex
		var most, running int
		var opened, resumed time.Time
		ex := &executetest.Fake{Block: func(ctx context.Context, _ execute.Leg) error {
			mu.Lock()
			running++
			if !opened.IsZero() && ctx.Err() == nil {
				if resumed.IsZero() {
					resumed = time.Now()
				}
				most = max(most, running)
			}
			first := opened.IsZero() && running == 2
			mu.Unlock()
			defer func() { mu.Lock(); running--; mu.Unlock() }()
			if first {
				tripped(t, r, time.Now().UnixNano())
				mu.Lock()
				opened = time.Now()
				mu.Unlock()
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Second):
				return nil
			}
		}}
		require.NoError(t, r.Run(t.Context(), &log{parts: parts}, ex))
		s := r.Stats()
		assert.Equal(t, int64(1), s.Breaker.Opened)
		assert.GreaterOrEqual(t, resumed.Sub(opened), 4*time.Minute)
		assert.Equal(t, 1, most, "a trial is one leg at a time")
		assert.Equal(t, s.Drawn, s.Emitted, "no leg was lost")
		assert.Empty(t, s.Dropped)
	})
}

func TestStatusSaysHowTheBreakerStands(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.Breaker = budget.DefaultBreaker() })
	assert.Equal(t, &BreakerStatus{Phase: "closed"}, r.Status().Breaker, "nothing is known, and nothing is made up")
	tripped(t, r, start)
	_, err := r.Due(start)
	require.NoError(t, err)
	b := r.Status().Breaker
	assert.Equal(t, []any{"open", int64(1), true}, []any{b.Phase, b.Opened, b.Judges})
	assert.Greater(t, *b.P99, 2**b.Baseline)
	legs, err := r.Offer(start, decisions(100))
	require.NoError(t, err)
	assert.Empty(t, legs)
	assert.Positive(t, r.Stats().Waiting)
	assert.Equal(t, "off", newRunner(t, NewMemoryStore(), &sink{}, nil).Status().Breaker.Phase)
}

// TestTheGateGoesByTheEngine: a leg waits for a quiet worker; an executor that can
// not tell has no gate, and flows that nobody counts hold nothing back.
func TestTheGateGoesByTheEngine(t *testing.T) {
	nan := math.NaN()
	r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.Idle = budget.DefaultIdle() })
	leg, still := execute.Leg{Link: "l"}, execute.Leg{}
	for name, c := range map[string]struct {
		ex   execute.Executor
		leg  *execute.Leg
		open bool
	}{
		"quiet":              {probed(execute.State{GPUQueue: 0.01, Flows: 2}), &leg, true},
		"busy":               {probed(execute.State{GPUQueue: 0.2, Flows: 2}), &leg, false},
		"busy, no saying":    {probed(execute.State{GPUQueue: nan, Flows: 2}), &leg, false},
		"full link":          {probed(execute.State{Flows: 20}), &leg, false},
		"full link not used": {probed(execute.State{Flows: 20}), &still, true},
		"flows not counted":  {probed(execute.State{Flows: nan}), &leg, true},
		"no state":           {noState{}, &leg, true},
		"no prober":          {struct{ execute.Executor }{}, &leg, true},
	} {
		assert.Equal(t, c.open, r.open(t.Context(), c.ex, c.leg), name)
	}
}

func probed(s execute.State) execute.Executor {
	return &executetest.Fake{Probed: func(execute.Leg) execute.State { return s }}
}

type noState struct{ execute.Executor }

func (noState) State(context.Context, execute.Leg) (execute.State, error) {
	return execute.State{}, execute.ErrNoState
}
