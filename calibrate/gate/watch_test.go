package gate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// correlated are n log residuals of spread sigma, each like the last by rho, one in
// twenty of them three times as wide.
func correlated(rng *rand.Rand, n int, sigma, rho float64) []float64 {
	out := make([]float64, n)
	state := sigma * rng.NormFloat64()
	for i := range out {
		state = rho*state + math.Sqrt(1-rho*rho)*sigma*rng.NormFloat64()
		out[i] = state
		if rng.IntN(20) == 0 {
			out[i] *= 3
		}
	}
	return out
}

// casesOf have the champion predict 1 s.
func casesOf(residuals []float64) []Case {
	out := make([]Case, len(residuals))
	for i, r := range residuals {
		out[i] = Case{Slice: Slice{Path: "fetch", Link: "it"}, AtNanos: int64(i), Observed: math.Exp(r), Champion: 1}
	}
	return out
}

// A week of hourly windows in which nothing drifts: independent residuals, and ones
// that follow each other.
func TestWatchIsSeldomWrong(t *testing.T) {
	const weeks, n = 2, 1000 // over 10 weeks: 0.0, 0.1 and 0.0 a week
	for _, rho := range []float64{0, 0.5, 0.8} {
		rng := rand.New(rand.NewPCG(7, uint64(10*rho)))
		naive, watched := 0, 0
		for range weeks * hoursOfWeek {
			residuals := correlated(rng, n, 0.3, rho)
			if (Drift{}).Test(residuals).Found {
				naive++
			}
			if Watch(casesOf(residuals))[0].Found {
				watched++
			}
		}
		t.Logf("correlation %.1f: %.1f false drifts a week, %.1f as if independent and at 0.001", rho, float64(watched)/weeks, float64(naive)/weeks)
		assert.LessOrEqual(t, float64(watched)/weeks, 0.5, "correlation %.1f", rho)
	}
}

// A fifth of the bandwidth lost is found within a few times 2σ²·ln(1/α)/shift².
func TestWatchFindsALostFifth(t *testing.T) {
	const worlds, n, at = 200, 4000, 1000
	for _, rho := range []float64{0, 0.5, 0.8} {
		rng := rand.New(rand.NewPCG(8, uint64(10*rho)))
		found, delays, want := 0, 0.0, 0.0
		for range worlds {
			residuals := correlated(rng, n, 0.3, rho)
			for i := at; i < n; i++ {
				residuals[i] += DefaultShift
			}
			d := Watch(casesOf(residuals))[0]
			if !d.Found || d.At < at {
				continue
			}
			found++
			require.True(t, d.Up)
			require.Positive(t, d.Shift)
			delays += float64(d.At - at)
			want += 2 * d.Sigma * d.Sigma * d.Threshold / (DefaultShift * DefaultShift)
		}
		t.Logf("correlation %.1f: %d of %d found, after %.0f residuals, %.0f by the formula", rho, found, worlds, delays/float64(found), want/float64(found))
		assert.GreaterOrEqual(t, found, worlds*95/100, "correlation %.1f", rho)
		assert.Less(t, delays, 1.3*want)
	}
}

func TestWatchKnowsNothingOfFew(t *testing.T) {
	assert.Empty(t, Watch(casesOf(make([]float64, leastWatched-1))))
	assert.Empty(t, Watch(nil))
	still := Watch(casesOf(make([]float64, leastWatched)))
	require.Len(t, still, 1)
	assert.False(t, still[0].Found)
	assert.True(t, math.IsNaN(still[0].Shift))
	big := make([]float64, 1000)
	for i := range big {
		big[i] = 0.1 * math.Sin(float64(i*i))
		if i >= 500 {
			big[i] += 2
		}
	}
	assert.True(t, Watch(casesOf(big))[0].Found, "a large step does not hide itself")
}

// Challengers that are worse where it matters are blocked, good ones published.
func TestBadIsBlockedAndGoodIsPublished(t *testing.T) {
	const worlds = 300
	rng := rand.New(rand.NewPCG(9, 9))
	blocked, published := 0, 0
	for range worlds {
		worse := 1.15 + 0.5*rng.Float64()
		if rng.IntN(2) == 0 {
			worse = 1 / worse
		}
		bad := append(plant(rng, "fetch", 400, 1, worse), plant(rng, "recompute", 400, 1.3, 1)...) // better elsewhere
		if !Judge(bad, true, Rules{}).Publish {
			blocked++
		}
		good := append(plant(rng, "fetch", 400, 1.2+0.3*rng.Float64(), 1), plant(rng, "recompute", 400, 1, 1)...)
		if Judge(good, true, Rules{}).Publish {
			published++
		}
	}
	t.Logf("%d of %d bad challengers blocked, %d of %d good ones published", blocked, worlds, published, worlds)
	assert.Equal(t, worlds, blocked)
	assert.GreaterOrEqual(t, published, worlds*9/10)
}
