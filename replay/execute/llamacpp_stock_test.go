package execute_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama/llamatest"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// TestLlamaNamespaceIsBuiltBefore: sizes that were stocked cost a leg nothing,
// whatever prefix it is of; building is charged to the worker that computed; the
// set stays within its quota, and a second stocking finds it.
func TestLlamaNamespaceIsBuiltBefore(t *testing.T) {
	f := llamatest.NewFalse(t)
	s := one(t, f, nil)
	var keeper execute.Keeper = s.Llama
	built, err := keeper.Stock(t.Context(), "m", []int64{40, 16, 16})
	require.NoError(t, err)
	require.Len(t, built, 2)
	for i, b := range built {
		assert.Equal(t, []any{"w1", []int64{16, 40}[i]}, []any{b.Worker, b.Tokens})
		assert.Positive(t, b.Cost.GPUSeconds)
	}
	again, err := keeper.Stock(t.Context(), "m", []int64{16, 40})
	require.NoError(t, err)
	assert.Empty(t, again)
	for id, size := range map[byte]int64{3: 40, 4: 40, 5: 16} {
		leg := llamaLeg(schema.PathFetch, id, 0, size)
		cost, err := s.Prepare(t.Context(), leg)
		require.NoError(t, err)
		assert.Zero(t, cost)
		_, err = s.Run(t.Context(), leg)
		require.NoError(t, err)
		require.NoError(t, s.Cleanup(t.Context(), leg))
	}
	n := keeper.Namespaces()
	require.Len(t, n, 1)
	assert.Equal(t, []any{"disk", "wire", []int64{16, 40}, int64(2), int64(3)}, []any{n[0].Tier, n[0].Link, n[0].Sizes, n[0].Built, n[0].Hits})
	assert.Positive(t, n[0].Bytes)
	assert.LessOrEqual(t, n[0].Bytes, n[0].Quota)
	assert.Empty(t, filesIn(t, f.SaveDir), "nothing is left with the server")
	assert.Zero(t, f.Held(1))
}

func TestLlamaNamespaceThatHasNoRoom(t *testing.T) {
	f := llamatest.NewFalse(t)
	tiny := one(t, f, func(c *execute.LlamaConfig) { c.Tiers[0].Quota = 100 })
	built, err := tiny.Stock(t.Context(), "m", []int64{16, 40})
	assert.ErrorIs(t, err, execute.ErrRefused)
	assert.ErrorContains(t, err, "quota")
	assert.Len(t, built, 2, "what was computed for nothing is spent")
	assert.Equal(t, []int64{16}, tiny.Namespaces()[0].Sizes)
	_, err = tiny.Stock(t.Context(), "m", []int64{0})
	assert.ErrorIs(t, err, execute.ErrRefused)
	f.Busy = 1
	busy := one(t, f, nil)
	_, err = busy.Stock(t.Context(), "m", []int64{16})
	assert.ErrorIs(t, err, execute.ErrUnavailable, "it waits for a quiet engine too")
}
