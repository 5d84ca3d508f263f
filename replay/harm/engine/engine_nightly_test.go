//go:build nightly

package engine

import (
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama/llamatest"
)

// TestMeasure is a small measurement, with a budget large enough that legs run in
// some twenty seconds: what ran is counted, and what legs cost is what was allowed.
// Its ratios are of too few requests to hold to a limit; make harm does that.
func TestMeasure(t *testing.T) {
	s := Default()
	s.Fleet.Binary, s.Fleet.Shape = llamatest.Binary(t), llamatest.TinyShape()
	s.Pairs, s.WarmUp, s.Rate, s.Limits.Share = 4, 1, 0.5, 0.3
	var notes []Block
	r, err := Measure(t.Context(), t.TempDir(), s, slog.New(slog.DiscardHandler), func(b Block) { notes = append(notes, b) })
	require.NoError(t, err)
	require.Len(t, notes, 8)
	for _, b := range notes {
		assert.Len(t, b.TTFT, s.Traffic.Requests)
		assert.Positive(t, b.GPU)
		assert.Positive(t, b.Bytes, "production fetches")
		if !b.With {
			assert.Zero(t, b.Legs, "a leg in a block without replays")
			assert.Zero(t, b.LegCost)
		}
	}
	assert.Equal(t, 100, r.With.Requests)
	assert.Equal(t, 100, r.Without.Requests)
	assert.Positive(t, r.Legs)
	assert.LessOrEqual(t, r.Legs, r.Attempts)
	assert.Positive(t, r.GPUShare)
	for _, x := range []Ratio{r.Mean, r.P90, r.NoiseMean, r.NoiseP90} {
		assert.True(t, 0 < x.Low && x.Low <= x.Ratio && x.Ratio <= x.Upper && x.Upper <= x.High && !math.IsInf(x.High, 1), "%+v", x)
	}
}
