package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"gonum.org/v1/gonum/stat/distuv"
)

// burnIn is how many requests, and burnInLegs how many legs, the asymptotic
// sequence of a pair is silent for, as estimate.Options has them.
const (
	burnIn     = 100
	burnInLegs = 20
)

// scores draws AIPW terms m − y + (R/π)(ỹ − m) of clipped TTFT, seconds: their
// mean is 0.1 and they lie within ±(1 + 1/π) seconds.
func scores(r *rand.Rand, pi float64) (phi float64, leg bool) {
	y, other := 0.2*r.ExpFloat64(), 0.3*math.Exp(0.3*r.NormFloat64()-0.045)
	phi = 0.25 - math.Min(y, 1)
	if leg = r.Float64() < pi; leg {
		phi += (math.Min(other, 1) - 0.25) / pi
	}
	return phi, leg
}

// scoreMean is E of scores, by E min(0.2 X, 1) = 0.2(1 − e⁻⁵), and of the
// lognormal cut at 1 by its partial expectation.
func scoreMean() float64 {
	n := distuv.UnitNormal
	mu, sigma := math.Log(0.3)-0.045, 0.3
	other := 0.3*n.CDF((0-mu-sigma*sigma)/sigma) + 1 - n.CDF(-mu/sigma)
	return other - 0.2*(1-math.Exp(-5))
}

// looked is one world's sequence: whether it was ever wrong, and its width at some
// looks.
type looked struct {
	wrong bool
	width []float64
}

var widthsAt = []int{100, 500, 2000}

func watch(looks int, mean float64, add func(), now func() estimate.Interval) (out looked) {
	for i := 1; i <= looks; i++ {
		add()
		at := now()
		out.wrong = out.wrong || at.Lo > mean || at.Hi < mean
		for _, w := range widthsAt {
			if i == w {
				out.width = append(out.width, at.Hi-at.Lo)
			}
		}
	}
	return out
}

// sequences shows how often a 95 % confidence sequence that is looked at after
// every request is ever wrong, how wide each is, and that a fixed interval so
// looked at is not one.
func sequences(n size) (Section, error) {
	s := Section{
		Title: fmt.Sprintf("Confidence sequences: 95 %%, %d looks, %d worlds, burn-in %d requests, or with that %d legs", n.looks, n.sequences, burnIn, burnInLegs),
		Head:  []string{"sequence", "π", "ever wrong", "at least (95 %)", "width s at 100", "at 500", "at 2000"},
		Notes: []string{
			"mean " + strconv.FormatFloat(scoreMean(), 'f', 4, 64) + " s; empirical Bernstein knows the range ±(1 + 1/π) s only: where its width is above that of the answer it is useless",
		},
	}
	mean := scoreMean()
	for _, pi := range []float64{1, 0.2, 0.02} {
		for _, kind := range []string{"asymptotic", "from 20 legs", "empirical Bernstein", "fixed interval"} {
			all := draw(n.sequences, func(seed uint64) looked { return sequence(kind, pi, seed, n.looks, mean) })
			rate, lower, widths := summary(all)
			s.row(append([]string{kind, fmt.Sprint(pi), percent(rate), percent(lower)}, widths...)...)
			switch {
			case kind == "from 20 legs" || kind == "empirical Bernstein":
				s.check(fmt.Sprintf("%s, π %v: ever wrong at least", kind, pi), lower, 0, 0.05)
			case kind == "fixed interval":
				s.check(fmt.Sprintf("%s, π %v: the looks must tell", kind, pi), rate, 0.1, 1)
			}
		}
	}
	s.Notes = append(s.Notes, "asymptotic at π 0.02: two legs among the first 100 requests are no basis for a limit theorem; a pair says nothing before 20 legs")
	return s, nil
}

func sequence(kind string, pi float64, seed uint64, looks int, mean float64) looked {
	r := rand.New(rand.NewPCG(seed, math.Float64bits(pi)))
	if kind == "empirical Bernstein" {
		b := estimate.NewBernstein(0.05, -1-1/pi, 1+1/pi)
		return watch(looks, mean, func() { phi, _ := scores(r, pi); b.Add(phi) }, b.Interval)
	}
	legs := 0
	a := estimate.NewSequence(0.05, burnIn)
	now := a.Interval
	if kind == "fixed interval" {
		now = func() estimate.Interval {
			i := a.Interval()
			mid := (i.Lo + i.Hi) / 2
			if a.N() >= burnIn {
				i.Lo, i.Hi = mid-1.96*i.SE, mid+1.96*i.SE
			}
			return i
		}
	}
	if kind == "from 20 legs" {
		now = func() estimate.Interval {
			if legs < burnInLegs {
				return estimate.Interval{Lo: math.Inf(-1), Hi: math.Inf(1)}
			}
			return a.Interval()
		}
	}
	return watch(looks, mean, func() {
		phi, leg := scores(r, pi)
		a.Add(phi)
		if leg {
			legs++
		}
	}, now)
}

// summary is the share ever wrong, its lower 95 % bound (Clopper and Pearson),
// and the mean widths.
func summary(all []looked) (rate, lower float64, widths []string) {
	wrong, n := 0.0, float64(len(all))
	sums := make([]float64, len(widthsAt))
	for i := range all {
		if all[i].wrong {
			wrong++
		}
		for k, w := range all[i].width {
			sums[k] += w / n
		}
	}
	if wrong > 0 {
		lower = distuv.Beta{Alpha: wrong, Beta: n - wrong + 1}.Quantile(0.05)
	}
	for _, w := range sums {
		widths = append(widths, strconv.FormatFloat(w, 'f', 3, 64))
	}
	return wrong / n, lower, widths
}
