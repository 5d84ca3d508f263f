package report

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

const unknownWord = "unknown"

// nb is a space that no line is broken at, between a number and its unit.
const nb = "\u00a0"

// breakable writes s with plain spaces, for what is no page.
func breakable(s string) string { return strings.ReplaceAll(s, nb, " ") }

// count is a number of things with thousands separated: "5,012".
func count(n int64) string {
	if n >= 1e12 || n <= -1e12 {
		return power(float64(n))
	}
	return humanize.Comma(n)
}

// power writes a number by its power of ten: "1.89×10⁻⁵".
func power(v float64) string {
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	n, _ := strconv.Atoi(exponent) // what FormatFloat wrote
	return zeros(digits) + "×10" + raised.Replace(strconv.Itoa(n))
}

var raised = strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")

// plural is a count with its noun: "1 replay", "214 replays".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// share is part of whole in per cent: "4.2 %"; "unknown" of nothing. A share
// that is not all and not nothing is never rounded to 100 or 0.
func share(part, whole int64) string {
	if whole <= 0 {
		return unknownWord
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case part > whole:
		return "over 100" + nb + "%"
	case part > 0 && p < 0.1:
		return "under 0.1" + nb + "%"
	case part < whole && p > 99.9:
		return "over 99.9" + nb + "%"
	case p == math.Trunc(p):
		return strconv.FormatFloat(p, 'f', 0, 64) + nb + "%"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + nb + "%"
}

// percent is a fraction in per cent, "unknown" where it is missing.
func percent(n Number) string {
	if !n.Known() {
		return unknownWord
	}
	return trim(100*n.V) + nb + "%"
}

// dust is below what the clocks of spans tell, seconds: what is smaller is shown as
// nothing, for it is the rounding of a sum.
const dust = 1e-6

// undust makes what is dust 0.
func undust(v float64) float64 {
	if math.Abs(v) < dust {
		return 0
	}
	return v
}

// unitOf is the unit in which seconds of this size are written: ms below 10 s.
func unitOf(seconds float64) (unit string, factor float64) {
	if math.Abs(seconds) < 10 {
		return "ms", 1000
	}
	return "s", 1
}

// trim writes a number as a person would: about three digits, thousands
// separated, exponents only beyond a thousand million.
func trim(v float64) string {
	a := math.Abs(v)
	switch {
	case !finite(v):
		return unknownWord
	case a >= 1e9 || (a > 0 && a < 0.001):
		return power(v)
	case a == 0:
		return "0"
	case a >= 99.95:
		return humanize.Comma(int64(math.Round(v)))
	case a >= 0.995:
		return zeros(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 0.1:
		return zeros(strconv.FormatFloat(v, 'f', 2, 64))
	}
	return zeros(strconv.FormatFloat(v, 'g', 2, 64))
}

// zeros drops the zeros after a decimal point: "4.0" is "4".
func zeros(s string) string {
	if !strings.Contains(s, ".") || strings.Contains(s, "e") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// seconds writes a duration with its unit: "412 ms", "12.4 s", "−3 ms".
func seconds(v float64) string {
	if !finite(v) {
		return unknownWord
	}
	v = undust(v)
	unit, factor := unitOf(v)
	return minus(trim(v*factor)) + nb + unit
}

// sentence starts s with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[size:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// oneUnit writes optional durations in one unit, that of the largest of all: a
// column of 9,884 ms and 12.1 s is hard to read.
func oneUnit(all ...Number) func(Number) string {
	largest := 0.0
	for _, n := range all {
		if n.Known() {
			largest = math.Max(largest, math.Abs(n.V))
		}
	}
	if largest < 10 || largest >= 1e6 {
		return number
	}
	return func(n Number) string {
		if !n.Known() {
			return unknownWord
		}
		return minus(strconv.FormatFloat(n.V, 'f', 2, 64)) + nb + "s"
	}
}

// number writes an optional duration; "unknown" where it is missing.
func number(n Number) string {
	if !n.Known() {
		return unknownWord
	}
	return seconds(n.V)
}

// minus writes the sign as typography has it, so that it is not broken off.
func minus(s string) string { return strings.Replace(s, "-", "−", 1) }

// direction is the word for the sign of a benefit.
func direction(v float64) string {
	switch {
	case v > 0:
		return "faster"
	case v < 0:
		return "slower"
	}
	return "no difference"
}

// signed writes a benefit in words: "412 ms slower".
func signed(v float64) string {
	if !finite(v) {
		return unknownWord
	}
	if undust(v) == 0 {
		return "no difference"
	}
	return seconds(math.Abs(v)) + " " + direction(v)
}

// span writes the bounds of a benefit: "350 to 470 ms slower", or "20 ms slower
// to 45 ms faster" where they have different signs.
func span(low, high float64) string {
	low, high = undust(low), undust(high)
	if low == 0 && high == 0 {
		return signed(0)
	}
	if low < 0 && high > 0 || low == 0 || high == 0 {
		return signed(low) + " to " + signed(high)
	}
	near, far := math.Abs(low), math.Abs(high)
	if near > far {
		near, far = far, near
	}
	unit, factor := unitOf(far)
	return trim(near*factor) + " to " + trim(far*factor) + nb + unit + " " + direction(low)
}

// level writes which interval it is: "95 % interval".
func level(l float64) string { return trim(100*l) + nb + "% interval" }

// bounds writes an interval with its level: "95 % interval 350 to 470 ms slower".
func bounds(i *Interval) string {
	switch {
	case !i.Known():
		return unknownWord
	case !i.HasInterval():
		return "no interval"
	}
	return level(i.Level) + " " + span(i.Low, i.High)
}

// bytesOf writes an optional number of bytes: "1.0 GiB".
func bytesOf(n Number) string {
	if !n.Known() || n.V < 0 {
		return unknownWord
	}
	if n.V >= 1e18 {
		return power(n.V) + " bytes"
	}
	return strings.ReplaceAll(humanize.IBytes(uint64(n.V)), " ", nb)
}

// moment writes a time in UTC; "unknown" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return unknownWord
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// wall writes how long something took: "3 min 20 s".
func wall(s float64) string {
	if !finite(s) || s <= 0 {
		return unknownWord
	}
	if s < 60 {
		return trim(s) + nb + "s"
	}
	d := time.Duration(s * float64(time.Second)).Round(time.Second)
	if d < time.Hour {
		return strconv.Itoa(int(d.Minutes())) + " min " + strconv.Itoa(int(d.Seconds())%60) + " s"
	}
	return strconv.Itoa(int(d.Hours())) + " h " + strconv.Itoa(int(d.Minutes())%60) + " min"
}
