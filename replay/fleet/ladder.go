package fleet

import (
	"fmt"
	"math"
	"sort"
)

// Point is one measured prefill: Tokens from an empty context take Seconds.
type Point struct {
	Tokens  float64
	Seconds float64
}

// Beyond the ladder a prefill grows as tokens to this power.
const beyondPower = 1.1

// ladder is L(n): monotone cubic interpolation between measured points, the first
// point's line down to n = 0, a power law beyond the last.
type ladder struct {
	x, y, slope []float64
	base        float64 // L(0)
}

// newLadder prepares the interpolation of Fritsch and Butland (1984): slopes are
// weighted harmonic means of the neighbouring ones, so that L never decreases.
func newLadder(points []Point) (*ladder, error) {
	if len(points) < 2 {
		return nil, fmt.Errorf("fleet config: Ladder has %d points, give the measured prefill times of 2 or more", len(points))
	}
	l := &ladder{}
	last := Point{}
	for i, p := range points {
		if !(p.Tokens > last.Tokens) || !(p.Seconds > last.Seconds) || math.IsInf(p.Tokens, 0) || math.IsInf(p.Seconds, 0) {
			return nil, fmt.Errorf("fleet config: Ladder point %d (%v tokens, %v s) does not grow: sort the points and drop those that decrease", i, p.Tokens, p.Seconds)
		}
		l.x, l.y, last = append(l.x, p.Tokens), append(l.y, p.Seconds), p
	}
	l.slope = harmonicSlopes(l.x, l.y)
	l.base = math.Max(0, l.y[0]-l.slope[0]*l.x[0])
	return l, nil
}

func harmonicSlopes(x, y []float64) []float64 {
	n := len(x)
	d := make([]float64, n-1)
	for i := range d {
		d[i] = (y[i+1] - y[i]) / (x[i+1] - x[i])
	}
	out := make([]float64, n)
	out[0], out[n-1] = d[0], d[n-2]
	for i := 1; i < n-1; i++ {
		h0, h1 := x[i]-x[i-1], x[i+1]-x[i]
		w0, w1 := 2*h1+h0, h1+2*h0
		out[i] = (w0 + w1) / (w0/d[i-1] + w1/d[i])
	}
	return out
}

// at is L(n), seconds.
func (l *ladder) at(n float64) float64 {
	last := len(l.x) - 1
	switch {
	case n <= 0:
		return l.base
	case n <= l.x[0]:
		return l.base + (l.y[0]-l.base)*n/l.x[0]
	case n >= l.x[last]:
		return l.y[last] * math.Pow(n/l.x[last], beyondPower)
	}
	i := sort.SearchFloat64s(l.x, n) - 1
	h := l.x[i+1] - l.x[i]
	t := (n - l.x[i]) / h
	return l.y[i]*(1+2*t)*(1-t)*(1-t) + l.y[i+1]*t*t*(3-2*t) +
		h*t*(1-t)*(l.slope[i]*(1-t)-l.slope[i+1]*t)
}

// seconds is the time to compute n tokens after m: L(m+n) − L(m) + L(0).
func (l *ladder) seconds(n, m float64) float64 {
	if n <= 0 {
		return 0
	}
	return l.at(m+n) - l.at(m) + l.base
}
