package estimate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAsymptoticRadiusIsTheNormalMixture holds the radius to the two-sided normal
// mixture boundary of Howard, Ramdas, McAuliffe and Sekhon (2021, equation 14),
// √((v + ρ) ln((v + ρ)/(α²ρ))), which is written in other terms, and its choice of
// ρ to their exact optimum, ρ = v/(−W₋₁(−α²/e) − 1).
func TestAsymptoticRadiusIsTheNormalMixture(t *testing.T) {
	for _, alpha := range []float64{0.05, 0.1} {
		for _, best := range []float64{100, 1000} {
			rho := best / (-2*math.Log(alpha) + math.Log(1-2*math.Log(alpha)))
			boundary := func(v, rho float64) float64 {
				return math.Sqrt((v + rho) * math.Log((v+rho)/(alpha*alpha*rho)))
			}
			for _, v := range []float64{100, 1000, 1e5} {
				assert.InEpsilon(t, boundary(v, rho)/v, asymptoticRadius(v, 1, alpha, best), 1e-12)
			}
			w := -3.0 // the lower branch of Lambert's W at −α²/e: w eʷ = −α²/e, by w = ln(α²/(−w)) − 1
			for range 200 {
				w = math.Log(alpha*alpha/-w) - 1
			}
			exact := boundary(best, best/(-w-1))
			assert.InEpsilon(t, exact/best, asymptoticRadius(best, 1, alpha, best), 0.01)
			assert.GreaterOrEqual(t, asymptoticRadius(best, 1, alpha, best), exact/best*(1-1e-9), "no choice is tighter")
		}
	}
}

// TestBernsteinIsThePublishedSequence holds the running form to theorem 2 of
// Waudby-Smith and Ramdas (2024) written out from its sums, with ψ(λ) = −ln(1−λ) − λ.
func TestBernsteinIsThePublishedSequence(t *testing.T) {
	const alpha = 0.05
	s := NewBernstein(alpha, 0, 1)
	var x, lambda []float64
	lo, hi := 0.0, 1.0
	for n := 1; n <= 100; n++ {
		x = append(x, math.Mod(float64(n)*math.Phi, 1))
		variance := 0.25
		for i := range n - 1 {
			sum := 0.5
			for _, v := range x[:i+1] {
				sum += v
			}
			variance += math.Pow(x[i]-sum/float64(i+2), 2)
		}
		variance /= float64(n)
		lambda = append(lambda, math.Min(0.5, math.Sqrt(2*math.Log(2/alpha)/(variance*float64(n)*math.Log(float64(n+1))))))
		s.Add(x[n-1])
		weighted, bets, psi, before := 0.0, 0.0, 0.0, 0.5
		for i := range x {
			mean := before / float64(i+1)
			weighted += lambda[i] * x[i]
			bets += lambda[i]
			psi += math.Pow(x[i]-mean, 2) * (-math.Log(1-lambda[i]) - lambda[i])
			before += x[i]
		}
		half := (math.Log(2/alpha) + psi) / bets
		lo, hi = math.Max(lo, weighted/bets-half), math.Min(hi, weighted/bets+half)
	}
	assert.InDelta(t, lo, s.Interval().Lo, 1e-12)
	assert.InDelta(t, hi, s.Interval().Hi, 1e-12)
}
