package budget

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestARestartKeepsWhatWasEarnedAndOwed: a ledger that is made again out of the
// changes that were kept, through JSON, answers as the one that went on.
func TestARestartKeepsWhatWasEarnedAndOwed(t *testing.T) {
	limits := Limits{Share: 0.1, GPURate: 0.01, GPUBurst: 5, ByteBurst: 1000}
	going, err := New(limits)
	require.NoError(t, err)
	var kept State
	keep := func() {
		raw, err := json.Marshal(going.Changed())
		require.NoError(t, err)
		var s State
		require.NoError(t, json.Unmarshal(raw, &s))
		kept.Merge(s)
	}
	now := int64(1e18)
	for i := range 50 {
		going.Earn(now, Charge{Worker: string(rune('a' + i%3)), GPUSeconds: float64(i), Link: "l", Bytes: 500})
		if i%7 == 0 {
			going.Take(now, Charge{Worker: "a", GPUSeconds: 9, Link: "l", Bytes: 200})
			keep()
		}
		now += 1e9
	}
	keep()
	again, err := New(limits)
	require.NoError(t, err)
	again.Restore(kept)
	assert.Equal(t, going.State(), again.State())
	for _, c := range []Charge{{Worker: "a", GPUSeconds: 1}, {Worker: "b", GPUSeconds: 4, Link: "l", Bytes: 100}, {Worker: "c", GPUSeconds: 9}} {
		assert.Equal(t, going.Take(now+5e9, c), again.Take(now+5e9, c))
	}
	assert.Empty(t, again.Changed().Links["x"])

	poorer, err := New(Limits{Share: 0.1, GPUBurst: 0.5, ByteBurst: 10})
	require.NoError(t, err)
	poorer.Restore(kept)
	for _, b := range poorer.State().Workers {
		assert.LessOrEqual(t, b.Tokens, 0.5, "a smaller burst holds what was saved under a larger one")
	}
}

func TestCompletionIsKeptByItsChanges(t *testing.T) {
	var c, again Completion
	cell := Cell{Stratum: "s", Size: 2, Leg: "control", Path: "fetch"}
	c.Intend(cell)
	again.Set(c.Changed())
	c.Intend(cell)
	c.Execute(cell)
	c.Intend(Cell{Size: 1, Leg: "rejected"})
	changed := c.Changed()
	assert.Len(t, changed, 2)
	assert.Empty(t, c.Changed())
	again.Set(changed)
	assert.Equal(t, c.Tallies(), again.Tallies())
	assert.Empty(t, again.Changed())
}
