// Package executetest is the suite that every executor passes, and an executor
// in memory for the tests of what uses one.
package executetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Legs are what the executor under test can run: one of each path it knows, and
// one that names a worker which it does not have.
type Legs struct {
	Good    []execute.Leg
	Unknown execute.Leg
	// Empty, where there is one, checks that nothing of a leg is left behind.
	Empty func(t *testing.T)
	// LoadUnknown says that the executor's servers do not tell their load.
	LoadUnknown bool
}

// Suite checks the contract of an executor. open makes one; its cleanup belongs
// to t.
func Suite(t *testing.T, legs Legs, open func(t *testing.T) execute.Executor) {
	t.Run("runs each path", func(t *testing.T) {
		ex := open(t)
		for _, leg := range legs.Good {
			checkRun(t, ex, legs, leg)
			checkEmpty(t, legs)
		}
	})
	t.Run("runs legs at once", func(t *testing.T) {
		ex := open(t)
		var all sync.WaitGroup
		for _, leg := range legs.Good {
			all.Go(func() { checkRun(t, ex, legs, leg) })
		}
		all.Wait()
	})
	t.Run("runs a leg again once it is cleaned up", func(t *testing.T) {
		ex := open(t)
		checkRun(t, ex, legs, legs.Good[0])
		checkRun(t, ex, legs, legs.Good[0])
		checkEmpty(t, legs)
	})
	t.Run("a leg that was cut short holds up no other", func(t *testing.T) {
		ex := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = run(ctx, ex, legs.Good[0])
		require.NoError(t, ex.Cleanup(context.WithoutCancel(ctx), legs.Good[0]))
		checkRun(t, ex, legs, legs.Good[0])
		checkEmpty(t, legs)
	})
	t.Run("says what it can force", func(t *testing.T) { checkCapabilities(t, open(t), legs) })
	t.Run("refuses an unknown worker", func(t *testing.T) {
		_, err := run(t.Context(), open(t), legs.Unknown)
		require.Error(t, err)
		assert.False(t, errors.Is(err, execute.ErrUnavailable), "it would be tried for ever: %v", err)
	})
	t.Run("ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := open(t).Run(ctx, legs.Good[0])
		assert.Error(t, err)
	})
	t.Run("cleans up twice, and what never ran", func(t *testing.T) {
		ex := open(t)
		assert.NoError(t, ex.Cleanup(t.Context(), legs.Good[0]))
		assert.NoError(t, ex.Cleanup(t.Context(), legs.Good[0]))
	})
}

func run(ctx context.Context, ex execute.Executor, leg execute.Leg) (execute.Result, error) {
	if _, err := ex.Prepare(ctx, leg); err != nil {
		return execute.Result{}, err
	}
	return ex.Run(ctx, leg)
}

func checkRun(t *testing.T, ex execute.Executor, legs Legs, leg execute.Leg) {
	cost, err := ex.Prepare(t.Context(), leg)
	if !assert.NoError(t, err) {
		return
	}
	assert.GreaterOrEqual(t, cost.GPUSeconds, 0.0)
	r, err := ex.Run(t.Context(), leg)
	if !assert.NoError(t, err) {
		return
	}
	assert.NoError(t, r.Check())
	assert.Positive(t, r.Observed.TTFT.V)
	checkStages(t, &r.Observed)
	assert.Equal(t, legs.LoadUnknown, r.State.GPUQueue != r.State.GPUQueue, "the GPU queue that the leg met must be known, where servers tell it")
	if leg.Path == schema.PathRecompute {
		assert.Positive(t, r.Cost.GPUSeconds, "a recompute takes the GPU")
	}
	if leg.Path == schema.PathFetch {
		assert.Positive(t, r.Cost.Bytes, "a fetch moves bytes")
	}
	assert.NoError(t, ex.Cleanup(t.Context(), leg))
}

// checkStages holds the stages to what they are defined as: parts of TTFT that do
// not overlap.
func checkStages(t *testing.T, o *schema.Observed) {
	if rest := o.Remainder(); rest.OK {
		assert.GreaterOrEqual(t, rest.V, -1e-6, "the stages sum to more than TTFT: %+v", *o)
	}
	for _, s := range []schema.Seconds{o.GPUQueue, o.TransferQueue, o.Transfer, o.ExposedStall, o.Restore, o.Prefill} {
		assert.GreaterOrEqual(t, s.V, 0.0, "%+v", *o)
	}
}

func checkEmpty(t *testing.T, legs Legs) {
	if legs.Empty != nil {
		legs.Empty(t)
	}
}

// checkCapabilities holds an executor to what it says of itself, where it does.
func checkCapabilities(t *testing.T, ex execute.Executor, legs Legs) {
	capable, ok := ex.(execute.Capable)
	if !ok {
		t.Skip("it does not say")
	}
	can := map[string]bool{}
	for _, c := range capable.Capabilities() {
		can[c.Worker+" "+c.Path.String()] = c.Can
		assert.Equal(t, c.Can, c.Why == "", "a reason is given where it can not, and only there: %+v", c)
	}
	for _, leg := range legs.Good {
		assert.True(t, can[leg.Candidate.Worker+" "+leg.Path.String()], "it runs %s on %s", leg.Path, leg.Candidate.Worker)
	}
	assert.False(t, can[legs.Unknown.Candidate.Worker+" "+legs.Unknown.Path.String()])
}
