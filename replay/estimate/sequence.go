package estimate

import "math"

// Sequence is a confidence sequence of a mean: unlike an interval it holds at
// every number of observations at once, so it may be looked at after each and
// acted on. It is asymptotic (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas
// 2024, theorem 2.2): from the burn-in on, its chance of ever being wrong is
// about alpha at most.
type Sequence struct {
	alpha, burnIn  float64
	n, mean, above float64 // Welford's
}

// NewSequence makes a sequence of error alpha that speaks after burnIn
// observations, where it is also tightest.
func NewSequence(alpha float64, burnIn int) *Sequence {
	return &Sequence{alpha: alpha, burnIn: math.Max(2, float64(burnIn))}
}

// Add takes an observation. They must be predictably centred: independent, or
// each with the same conditional mean given the earlier.
func (s *Sequence) Add(x float64) {
	s.n++
	d := x - s.mean
	s.mean += d / s.n
	s.above += d * (x - s.mean)
}

// N is the number of observations.
func (s *Sequence) N() int { return int(s.n) }

// Interval is the sequence now; infinite on both sides before the burn-in.
func (s *Sequence) Interval() Interval {
	if s.n < s.burnIn {
		return Interval{math.Inf(-1), math.Inf(1), math.NaN()}
	}
	sigma := math.Sqrt(s.above / s.n)
	half := asymptoticRadius(s.n, sigma, s.alpha, s.burnIn)
	return Interval{s.mean - half, s.mean + half, sigma / math.Sqrt(s.n)}
}

// asymptoticRadius is σ·√(2(tρ²+1)/(t²ρ²)·ln(√(tρ²+1)/α)), with ρ that makes it
// tightest at t = best.
func asymptoticRadius(t, sigma, alpha, best float64) float64 {
	rho2 := (-2*math.Log(alpha) + math.Log(1-2*math.Log(alpha))) / best
	a := t*rho2 + 1
	return sigma * math.Sqrt(2*a/(t*t*rho2)*math.Log(math.Sqrt(a)/alpha))
}

// Bernstein is the predictable plug-in empirical-Bernstein confidence sequence
// (Waudby-Smith and Ramdas 2024, theorem 2) of a mean of values clipped to a
// range. It holds exactly from the first observation, with no burn-in, for the
// mean of the clipped values.
type Bernstein struct {
	alpha, low, high    float64
	n, clipped          int
	sum, squares        float64 // of x, and of (x − mean before it)², in [0, 1]
	bets, weighted, psi float64
	lo, hi              float64
}

// NewBernstein makes a sequence of error alpha for values clipped to [low, high],
// low < high.
func NewBernstein(alpha, low, high float64) *Bernstein {
	return &Bernstein{alpha: alpha, low: low, high: high, hi: 1}
}

// Add takes an observation.
func (s *Bernstein) Add(value float64) {
	x := (value - s.low) / (s.high - s.low)
	if x < 0 || x > 1 {
		s.clipped++
		x = math.Min(1, math.Max(0, x))
	}
	t := float64(s.n + 1)
	mean := (0.5 + s.sum) / t
	variance := (0.25 + s.squares) / t
	bet := math.Min(0.5, math.Sqrt(2*math.Log(2/s.alpha)/(variance*t*math.Log(1+t))))
	s.bets += bet
	s.weighted += bet * x
	s.psi += (x - mean) * (x - mean) * (-math.Log1p(-bet) - bet)
	s.n++
	s.sum += x
	after := (0.5 + s.sum) / (t + 1)
	s.squares += (x - after) * (x - after)
	mid, half := s.weighted/s.bets, (math.Log(2/s.alpha)+s.psi)/s.bets
	s.lo, s.hi = math.Max(s.lo, mid-half), math.Min(s.hi, mid+half)
}

// N is the number of observations, and how many of them were clipped.
func (s *Bernstein) N() (n, clipped int) { return s.n, s.clipped }

// Interval is the sequence now. It never widens.
func (s *Bernstein) Interval() Interval {
	width := s.high - s.low
	return Interval{s.low + s.lo*width, s.low + s.hi*width, math.NaN()}
}
