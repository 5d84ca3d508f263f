package harm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/budget"
)

// limit is the ratio of p99 that a budget of 1 % of cost may not exceed.
const limit = 1.05

// measure prints the table of one link.
func measure(t *testing.T, link string, requests, seeds int, gate budget.Idle) Summary {
	t.Helper()
	s, err := Demo(link, requests, 0.01)
	require.NoError(t, err)
	s.Idle = gate
	all := make([]uint64, seeds)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	pairs, err := Measure(s, all, func(p Pair) {
		t.Logf("%s seed %2d: p99 %7.1f ms without, %7.1f ms with replays, ratio %.4f; mean %.1f and %.1f ms; %d legs, %.2f %% of GPU-seconds, %.2f %% of bytes",
			link, p.Seed, 1e3*p.Without, 1e3*p.With, p.Ratio(), 1e3*p.MeanWithout, 1e3*p.Mean, p.Legs, 100*p.GPUShare, 100*p.BytesShare)
	})
	require.NoError(t, err)
	sum, err := Summarize(pairs, limit)
	require.NoError(t, err)
	t.Logf("%s, gate %+v: ratio of production's p99 TTFT %.4f, at most %.4f (95 %%, %d seeds), worst seed %.4f, %d legs at %.2f %% of cost; limit %.2f",
		link, gate, sum.Ratio, sum.Upper, sum.Pairs, sum.Worst, sum.Legs, 100*sum.Share, limit)
	return sum
}

// TestReplaysDoNoHarm is a small one of TestHarm.
func TestReplaysDoNoHarm(t *testing.T) {
	sum := measure(t, "busy", 2500, 3, budget.DefaultIdle())
	assert.Positive(t, sum.Legs)
	assert.LessOrEqual(t, sum.Share, 0.013)
	assert.LessOrEqual(t, sum.Ratio, limit)
}

// TestHarmCanBeSeen: with the budget open, replays do slow production: the
// measurement is not blind.
func TestHarmCanBeSeen(t *testing.T) {
	s, err := Demo("busy", 2500, 1)
	require.NoError(t, err)
	s.Rate, s.Control, s.Idle = 1, 1, budget.Idle{}
	pairs, err := Measure(s, []uint64{1, 2}, nil)
	require.NoError(t, err)
	sum, err := Summarize(pairs, limit)
	require.NoError(t, err)
	assert.Greater(t, sum.Ratio, 1.02)
	assert.False(t, sum.Better)
}

func TestSummarize(t *testing.T) {
	sum, err := Summarize([]Pair{{Without: 1, With: 1.02}, {Without: 2, With: 2}, {Without: 1, With: 1.01}}, limit)
	require.NoError(t, err)
	assert.InDelta(t, math.Cbrt(1.02*1.01), sum.Ratio, 1e-12)
	assert.Greater(t, sum.Upper, sum.Ratio)
	assert.Equal(t, 1.02, sum.Worst)
	assert.True(t, sum.Better)
	_, err = Summarize(nil, limit)
	assert.ErrorContains(t, err, "two seeds")
	_, err = Demo("other", 1, 0.01)
	assert.ErrorContains(t, err, "busy or calm")
}
