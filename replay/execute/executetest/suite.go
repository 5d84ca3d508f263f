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
}

// Suite checks the contract of an executor. open makes one; its cleanup belongs
// to t.
func Suite(t *testing.T, legs Legs, open func(t *testing.T) execute.Executor) {
	t.Run("runs each path", func(t *testing.T) {
		ex := open(t)
		for _, leg := range legs.Good {
			checkRun(t, ex, leg)
		}
	})
	t.Run("runs legs at once", func(t *testing.T) {
		ex := open(t)
		var all sync.WaitGroup
		for _, leg := range legs.Good {
			all.Go(func() { checkRun(t, ex, leg) })
		}
		all.Wait()
	})
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

func checkRun(t *testing.T, ex execute.Executor, leg execute.Leg) {
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
	assert.False(t, r.State.GPUQueue != r.State.GPUQueue, "the GPU queue that the leg met must be known")
	if leg.Path == schema.PathRecompute {
		assert.Positive(t, r.Cost.GPUSeconds, "a recompute takes the GPU")
	}
	if leg.Path == schema.PathFetch {
		assert.Positive(t, r.Cost.Bytes, "a fetch moves bytes")
	}
	assert.NoError(t, ex.Cleanup(t.Context(), leg))
}
