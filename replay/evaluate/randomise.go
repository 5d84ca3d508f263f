package evaluate

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// arrangement is blocks with the policies that they had, or could have had.
type arrangement struct {
	n, y  []float64 // requests and sum of outcomes by block
	b     []bool    // block was under B
	pairs bool
}

func newArrangement(blocks []BlockOfTime, s Switchback) *arrangement {
	x := &arrangement{pairs: s.Design == DesignPairs}
	for _, k := range blocks {
		x.n, x.y, x.b = append(x.n, float64(k.N)), append(x.y, k.Sum), append(x.b, k.Policy == s.B)
	}
	return x
}

func (x *arrangement) means() (a, b float64) {
	var n, y [2]float64
	for i, isB := range x.b {
		k := 0
		if isB {
			k = 1
		}
		n[k], y[k] = n[k]+x.n[i], y[k]+x.y[i]
	}
	return y[0] / n[0], y[1] / n[1]
}

// student is the difference of means a request with Student's interval over
// blocks: each arm a ratio of sums, or with pairs the differences within pairs.
func (x *arrangement) student(level float64) Estimate {
	a, b := x.means()
	if x.pairs {
		return x.studentOfPairs(b-a, level)
	}
	variance, below := 0.0, 0.0
	for arm, mean := range map[bool]float64{false: a, true: b} {
		v, k, n := 0.0, 0.0, 0.0
		for i := range x.n {
			if x.b[i] == arm {
				d := x.y[i] - mean*x.n[i]
				v, k, n = v+d*d, k+1, n+x.n[i]
			}
		}
		v *= k / (k - 1) / (n * n)
		variance += v
		below += v * v / (k - 1)
	}
	df := 1.0
	if below > 0 {
		df = variance * variance / below // Welch and Satterthwaite
	}
	return around(b-a, variance, level, df)
}

func (x *arrangement) studentOfPairs(effect, level float64) Estimate {
	a, b := x.means()
	var half [2]float64
	for i, isB := range x.b {
		if isB {
			half[1] += x.n[i]
		} else {
			half[0] += x.n[i]
		}
	}
	v, k := 0.0, float64(len(x.n)/2)
	for i := 0; i+1 < len(x.n); i += 2 {
		d := 0.0
		for _, j := range []int{i, i + 1} {
			if x.b[j] {
				d += (x.y[j] - b*x.n[j]) / half[1]
			} else {
				d -= (x.y[j] - a*x.n[j]) / half[0]
			}
		}
		v += d * d
	}
	return around(effect, v*k/(k-1), level, k-1)
}

// randomised is what going through the assignments gives.
type randomised struct {
	p, lo, hi float64
	exact     bool
	draws     int
}

// maxExact is the most blocks of which every assignment is gone through: 184,756
// of 20.
const maxExact = 20

// randomise compares the difference of means with those of the other assignments
// that the design could have given (Fisher 1935), and inverts that test: the
// effects that, taken from every outcome under B, leave the blocks exchangeable.
// For an assignment z the difference is a(z) − τ·b(z), linear in the effect τ, and
// |a(z) − τ·b(z)| ≥ |â − τ| holds between two roots about â, so that the limits are
// order statistics of the roots and no search is needed.
func (x *arrangement) randomise(s Switchback) randomised {
	a, b := x.means()
	observed := b - a
	var lows, highs []float64
	extreme := 0
	see := func(z []bool) {
		az, bz := x.under(z)
		if math.Abs(az) >= math.Abs(observed)*(1-1e-12) {
			extreme++
		}
		lo, hi := roots(az, bz, observed)
		lows, highs = append(lows, lo), append(highs, hi)
	}
	exact := len(x.b) <= maxExact
	if exact {
		x.every(see)
	} else {
		see(x.b)
		x.some(s, see)
	}
	n := len(lows)
	slices.Sort(lows)
	slices.Sort(highs)
	k := int((1 - s.Level) * float64(n))
	return randomised{p: float64(extreme) / float64(n), lo: lows[k], hi: highs[n-1-k], exact: exact, draws: n}
}

// roots bounds the effects at which the assignment is at least as extreme as the
// one that was.
func roots(az, bz, observed float64) (lo, hi float64) {
	if math.Abs(bz) > 1-1e-12 { // the assignment that was, or every block the other way round
		return math.Inf(-1), math.Inf(1)
	}
	r1, r2 := (observed-az)/(1-bz), (observed+az)/(1+bz)
	return math.Min(r1, r2), math.Max(r1, r2)
}

// under gives the difference of means under an assignment, and by how much it grows
// with an effect of 1 on the requests that were under B.
func (x *arrangement) under(z []bool) (a, b float64) {
	var n, y, was [2]float64
	for i := range z {
		k := 0
		if z[i] {
			k = 1
		}
		n[k], y[k] = n[k]+x.n[i], y[k]+x.y[i]
		if x.b[i] {
			was[k] += x.n[i]
		}
	}
	return y[1]/n[1] - y[0]/n[0], was[1]/n[1] - was[0]/n[0]
}

// every calls see with each assignment of the design.
func (x *arrangement) every(see func([]bool)) {
	z := make([]bool, len(x.b))
	if x.pairs {
		for m := range 1 << (len(z) / 2) {
			for i := range z {
				z[i] = (m>>(i/2))&1 == i%2
			}
			see(z)
		}
		return
	}
	left := 0
	for _, b := range x.b {
		if b {
			left++
		}
	}
	var place func(i, left int)
	place = func(i, left int) {
		if left > len(z)-i {
			return
		}
		if i == len(z) {
			see(z)
			return
		}
		z[i] = false
		place(i+1, left)
		if left > 0 {
			z[i] = true
			place(i+1, left-1)
			z[i] = false
		}
	}
	place(0, left)
}

// some calls see with Draws assignments of the design, by the seed.
func (x *arrangement) some(s Switchback, see func([]bool)) {
	r := rand.New(rand.NewPCG(s.Seed, 0x5717c4))
	z := slices.Clone(x.b)
	for range s.Draws {
		if !x.pairs {
			r.Shuffle(len(z), func(i, j int) { z[i], z[j] = z[j], z[i] })
			see(z)
			continue
		}
		for i := 0; i+1 < len(z); i += 2 {
			z[i] = r.IntN(2) == 0
			z[i+1] = !z[i]
		}
		see(z)
	}
}

// carryOver looks for effects of the block before. Without any, how a block's first
// half differs from its second does not depend on the direction of the switch
// before it; with some, blocks of B after A begin more like A. It is tested on the
// switched blocks, by Welch's t.
func (out *Switched) carryOver(s Switchback) {
	var d [2][]float64
	var early, late, n [2]float64
	for _, b := range out.Blocks {
		k := 0
		if b.Policy == s.B {
			k = 1
		}
		if math.IsNaN(b.Early) || math.IsNaN(b.Late) {
			continue
		}
		early[k], late[k], n[k] = early[k]+b.Early, late[k]+b.Late, n[k]+1
		if b.After != "" && b.After != b.Policy {
			d[k] = append(d[k], b.Early-b.Late)
		}
	}
	out.Early, out.Late = early[1]/n[1]-early[0]/n[0], late[1]/n[1]-late[0]/n[0]
	if len(d[0]) < 3 || len(d[1]) < 3 {
		return
	}
	a, b := meanOf(d[0], nil, s.Level), meanOf(d[1], nil, s.Level)
	out.CarryOver = b.Value - a.Value
	va, vb := a.SE*a.SE, b.SE*b.SE
	if va+vb == 0 {
		return
	}
	df := (va + vb) * (va + vb) / (va*va/float64(len(d[0])-1) + vb*vb/float64(len(d[1])-1))
	t := math.Abs(out.CarryOver) / math.Sqrt(va+vb)
	out.CarryP = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Survival(t)
}
