package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcrossRuns(t *testing.T) {
	d := AcrossRuns([]float64{1, 2, 3, 4}, 400)
	require.InDelta(t, 2.5, d.Mean, 1e-12)
	// s = 1.2910, s/√4 = 0.6455, t(3, 97.5 %) = 3.1824
	require.InDelta(t, 2.5-3.1824*0.6455, d.Lo, 1e-3)
	require.InDelta(t, 2.5+3.1824*0.6455, d.Hi, 1e-3)
	require.Equal(t, 400, d.N)
	require.Empty(t, d.Why)

	same := AcrossRuns([]float64{0, 0, 0}, 3)
	require.Zero(t, same.Lo)
	require.Zero(t, same.Hi)

	few := AcrossRuns([]float64{1, 2}, 2)
	require.Equal(t, "fewer than three runs", few.Why)
	require.True(t, math.IsNaN(few.Lo))
}

func TestAcrossRunsCovers(t *testing.T) {
	rng, covered := rand.New(rand.NewPCG(1, 2)), 0
	const worlds = 2000
	for range worlds {
		runs := make([]float64, 4)
		for i := range runs {
			runs[i] = rng.NormFloat64()
		}
		if d := AcrossRuns(runs, 4); d.Lo <= 0 && d.Hi >= 0 {
			covered++
		}
	}
	require.InDelta(t, 0.95, float64(covered)/worlds, 0.015)
}
