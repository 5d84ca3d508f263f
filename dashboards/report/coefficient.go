package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// coefficient writes a fitted value with its unit, and its standard error unless
// that is missing: "18.8 ± 0.023 µs a token". Seconds are written in the unit that
// fits the value, bandwidths as GB/s.
func coefficient(v float64, e Number, unit string) string {
	switch {
	case unit == "bytes/s" && v >= 1000 && v < 1e24:
		s := bandwidth(v)
		if e.Known() {
			s += " ± " + bandwidth(e.V)
		}
		return s
	case inSeconds(unit) && v != 0:
		name, factor := smallUnit(v)
		return withError(v*factor, scaled(e, factor), name+strings.TrimPrefix(unit, "s"))
	}
	return withError(v, e, unit)
}

// withError writes the two numbers and the unit. The error has two digits: it is
// itself an estimate.
func withError(v float64, e Number, unit string) string {
	s := digits(v, 3)
	if e.Known() {
		s += " ± " + digits(e.V, 2)
	}
	if unit == "" {
		return s
	}
	return s + nb + unit
}

func bandwidth(v float64) string {
	return strings.ReplaceAll(humanize.SIWithDigits(v, 1, "B/s"), " ", nb)
}

func scaled(n Number, factor float64) Number { return Number{V: n.V * factor, OK: n.OK} }

// inSeconds says that a coefficient is a time, alone or a unit of work; seconds a
// second are a ratio.
func inSeconds(unit string) bool {
	return unit == "s" || strings.HasPrefix(unit, "s, ") || strings.HasPrefix(unit, "s a ") && !strings.HasPrefix(unit, "s a second")
}

// smallUnit is the unit in which a time has at least one digit before its point.
func smallUnit(v float64) (unit string, factor float64) {
	unit, factor = "s", 1
	for _, smaller := range []string{"ms", "µs", "ns", "ps", "fs"} {
		if math.Abs(v)*factor >= 1 {
			break
		}
		unit, factor = smaller, factor*1000
	}
	return unit, factor
}

// digits writes v with n digits that count.
func digits(v float64, n int) string {
	a := math.Abs(v)
	if a > 0 && (a < 1e-4 || a >= 1e7) {
		return minus(power(v))
	}
	return minus(zeros(strconv.FormatFloat(v, 'f', max(0, n-1-int(math.Floor(math.Log10(math.Max(a, 1e-4))))), 64)))
}
