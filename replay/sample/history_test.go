package sample

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func planOf(t testing.TB, rate float64, salt string) *Plan {
	params := DefaultParams()
	params.Rate = rate
	p, err := New(params, []byte(salt))
	require.NoError(t, err)
	return p
}

const oneSalt, otherSalt = "one salt, long enough", "another salt, as long"

// TestOlderDrawsStayRepeatable: after two adaptations, and a restart, a decision is
// drawn as it was by the plan of its time.
func TestOlderDrawsStayRepeatable(t *testing.T) {
	first := planOf(t, 0.3, oneSalt)
	h := NewHistory(first)
	for i, since := range []int64{1000, 2000} {
		_, held := h.Last()
		next, err := held.Replan([]Count{{Stratum: first.StratumOf(&part(1).Decision), Decisions: 1000, SD: 1, Cost: 1}}, Funds{GPUSeconds: 100 * float64(i+1)})
		require.NoError(t, err)
		require.NoError(t, h.Append(since, next, first.ID(), "budget"))
	}
	raw, err := json.Marshal(h.Entries())
	require.NoError(t, err)
	var entries []Entry
	require.NoError(t, json.Unmarshal(raw, &entries))
	again, err := RestoreHistory(entries, []byte(oneSalt))
	require.NoError(t, err)
	for _, start := range []int64{0, 999, 1000, 1500, 2000, 1e18} {
		assert.Equal(t, h.At(start).ID(), again.At(start).ID(), "%d", start)
		for i := range 200 {
			assert.Equal(t, h.At(start).Draw(part(i)), again.At(start).Draw(part(i)))
		}
	}
	assert.Equal(t, first.ID(), h.At(999).ID())
	assert.NotEqual(t, h.At(1000).ID(), h.At(2000).ID())
	changed, err := again.Settle(5000, first)
	require.NoError(t, err)
	assert.False(t, changed, "the settings are those that it was adapted from")
}

func TestNewSettingsAreANewPlan(t *testing.T) {
	h := NewHistory(planOf(t, 0.3, oneSalt))
	other := planOf(t, 0.4, oneSalt)
	changed, err := h.Settle(7000, other)
	require.NoError(t, err)
	require.True(t, changed)
	last, p := h.Last()
	assert.Equal(t, []any{int64(7000), other.ID(), other.ID(), "settings"}, []any{last.Since, last.ID, last.Base, last.Why})
	assert.Equal(t, 0.4, p.Params().Rate)
	changed, err = h.Settle(8000, other)
	require.NoError(t, err)
	assert.False(t, changed)
}

// TestAnotherSaltIsNotPretended: what another salt drew is not drawn again by this
// one.
func TestAnotherSaltIsNotPretended(t *testing.T) {
	h, err := RestoreHistory(NewHistory(planOf(t, 0.3, oneSalt)).Entries(), []byte(otherSalt))
	require.NoError(t, err)
	assert.Nil(t, h.At(1))
	changed, err := h.Settle(100, planOf(t, 0.3, otherSalt))
	require.NoError(t, err)
	assert.True(t, changed)
	assert.Nil(t, h.At(99))
	assert.NotNil(t, h.At(100))
}

func TestAHistoryOnlyGoesOn(t *testing.T) {
	_, err := RestoreHistory(nil, []byte(oneSalt))
	assert.ErrorContains(t, err, "empty")
	h := NewHistory(planOf(t, 0.3, oneSalt))
	assert.Error(t, h.Append(0, planOf(t, 0.4, oneSalt), "", ""), "time must go on")
	assert.Error(t, h.Append(10, planOf(t, 0.3, oneSalt), "", ""), "it is the plan in force")
	e := h.Entries()[0]
	_, err = RestoreHistory([]Entry{e, e}, []byte(oneSalt))
	assert.ErrorContains(t, err, "follow")
	e.Params.Rate = 2
	_, err = RestoreHistory([]Entry{e}, []byte(oneSalt))
	assert.ErrorContains(t, err, "above 0")
}

func TestDiffersByAShare(t *testing.T) {
	a, b := planOf(t, 0.3, oneSalt), planOf(t, 0.33, oneSalt)
	assert.False(t, a.Differs(b, 0.2))
	assert.True(t, a.Differs(b, 0.05))
	params := a.Params()
	params.Rates = map[string]float64{"x": 0.9}
	c, err := New(params, []byte(oneSalt))
	require.NoError(t, err)
	assert.True(t, a.Differs(c, 0.2))
}

// TestReplanKeepsToBytes: where a leg's bytes are dear, they hold the rates.
func TestReplanKeepsToBytes(t *testing.T) {
	p := planOf(t, 0.3, oneSalt)
	s := p.StratumOf(&part(1).Decision)
	next, err := p.Replan([]Count{{Stratum: s, Decisions: 1000, SD: 1, Cost: 0.001, Bytes: 1e9}}, Funds{GPUSeconds: 100, Bytes: 2e10})
	require.NoError(t, err)
	assert.InDelta(t, 0.02, next.Rate(s), 1e-6)
}
