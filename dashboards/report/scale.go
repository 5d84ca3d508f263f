package report

import (
	"math"
	"sort"
	"strconv"
)

// scale maps values to per cent of a plot's width. Plots are SVGs whose places
// are per cent, with their words outside, so that they are readable at any width.
type scale struct{ min, max float64 }

// at is the place of v, held inside the plot.
func (s scale) at(v float64) float64 {
	if s.max <= s.min {
		return 50
	}
	return 100 * math.Min(1, math.Max(0, (v-s.min)/(s.max-s.min)))
}

// pct writes a place as an SVG length.
func pct(p float64) string { return strconv.FormatFloat(p, 'f', 2, 64) + "%" }

// tick is a labelled place on an axis. Anchor keeps a label inside its plot.
type tick struct{ X, Label, Anchor string }

// ticks are at most five round places of s. word makes the label of a value.
func (s scale) ticks(word func(float64) string) (out []tick) {
	if s.max <= s.min {
		return nil
	}
	step := roundStep((s.max - s.min) / 4)
	for i := math.Ceil(s.min / step); i*step <= s.max+step*1e-9; i++ {
		p := s.at(i * step)
		anchor := "middle"
		if p < 9 {
			anchor = "start"
		} else if p > 91 {
			anchor = "end"
		}
		out = append(out, tick{X: pct(p), Label: word(i * step), Anchor: anchor})
	}
	return out
}

// roundStep is the least of 1, 2, 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= v*(1-1e-9) {
			return m * base
		}
	}
	return 10 * base
}

// fewIntervals are all shown whole: of so few none is an exception.
const fewIntervals = 3

// symmetric is a scale around zero that holds the intervals, except such as are
// far wider than most: those are cut, and marked where they are.
func symmetric(all ...*Interval) scale {
	var sizes []float64
	for _, i := range all {
		if i.Known() {
			low, high := i.limits()
			sizes = append(sizes, math.Max(math.Abs(low), math.Abs(high)))
		}
	}
	if len(sizes) == 0 {
		return scale{}
	}
	sort.Float64s(sizes)
	widest := sizes[len(sizes)-1]
	if typical := sizes[(len(sizes)-1)*2/3]; typical > 0 && len(sizes) > fewIntervals {
		widest = math.Min(widest, 2.5*typical)
	}
	if widest < 10*dust {
		widest = 1e-3
	}
	return scale{-widest * 1.08, widest * 1.08}
}

// fitted is a scale that holds no difference and the intervals, except such as are
// far wider than most: those are cut, and marked where they are.
func fitted(all ...*Interval) scale {
	whole := symmetric(all...)
	if whole.max <= whole.min {
		return whole
	}
	far := 4 * whole.max
	low, high := 0.0, 0.0
	for _, i := range all {
		if i.Known() {
			l, h := i.limits()
			low, high = math.Min(low, math.Max(l, -far)), math.Max(high, math.Min(h, far))
		}
	}
	if high-low < 10*dust {
		return whole
	}
	pad := 0.06 * (high - low)
	return scale{low - pad, high + pad}
}

// limits are the bounds, or the value twice where there are none.
func (i *Interval) limits() (low, high float64) {
	if i.HasInterval() {
		return i.Low, i.High
	}
	return i.Value, i.Value
}

// mark is one interval drawn in a plot; the zero mark is not drawn.
type mark struct {
	Drawn             bool
	Line              bool // has bounds
	Low, Mid, High    string
	CutLow, CutHigh   bool   // goes on beyond the plot
	CutMid            bool   // so does the estimate itself
	Zero              string // place of no difference
	Truth             string // place of the truth, "" where there is none
	Kind              string // "helping", "hurting", "unknown": which side its interval is on
	Title, Desc, Name string // text alternative
}

// markOf draws i on s.
func markOf(s scale, i *Interval, name string) mark {
	m := mark{Zero: pct(s.at(0)), Kind: "unknown", Name: name, Title: name + ": " + unknownWord}
	if !i.Known() {
		return m
	}
	low, high := i.limits()
	m.Drawn, m.Line = true, i.HasInterval()
	m.Low, m.Mid, m.High = pct(s.at(low)), pct(s.at(i.Value)), pct(s.at(high))
	m.CutLow, m.CutHigh = low < s.min, high > s.max
	m.CutMid = i.Value < s.min || i.Value > s.max
	m.Title = name + ": " + signed(i.Value)
	m.Desc = bounds(i)
	if i.HasInterval() && i.Low > 0 {
		m.Kind = "helping"
	} else if i.HasInterval() && i.High < 0 {
		m.Kind = "hurting"
	}
	return m
}

// axisWord labels a place on a benefit's axis; the words slower and faster stand
// at the ends of the axis, so only the size is written.
func axisWord(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return seconds(math.Abs(v))
}
