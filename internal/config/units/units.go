// Package units reads and writes sizes, rates and durations as people write
// them. What could mean two things is refused, not guessed: 1G may be 10^9 or
// 2^30 bytes, and Gb are bits.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Bytes is a size in bytes.
type Bytes int64

// Rate is a transfer rate in bytes per second. Networks are named in bits:
// 400Gbit/s is 50e9.
type Rate float64

// Duration is a time.Duration that is written with days and weeks too: 7d.
type Duration time.Duration

// prefixes of SI and IEC, in the case that is written.
var prefixes = map[string]float64{
	"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15,
	"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50,
}

// ParseBytes reads a size such as 1GiB (2^30), 900KB (900,000) or 512.
func ParseBytes(s string) (Bytes, error) {
	number, unit, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w, write for example 64MiB", s, err)
	}
	scale, err := byteScale(unit)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", s, err)
	}
	value := number * scale
	switch {
	case value < 0:
		return 0, fmt.Errorf("size %q is negative", s)
	case value >= math.MaxInt64:
		return 0, fmt.Errorf("size %q is too large", s)
	case value != math.Trunc(value):
		return 0, fmt.Errorf("size %q is not a whole number of bytes", s)
	}
	return Bytes(value), nil
}

// byteScale is the number of bytes in one unit.
func byteScale(unit string) (float64, error) {
	if unit == "" {
		return 1, nil
	}
	lower := strings.ToLower(unit)
	prefix, ok := strings.CutSuffix(lower, "b")
	scale, known := prefixes[prefix]
	switch {
	case ok && known && strings.HasSuffix(unit, "b") && unit != lower:
		return 0, fmt.Errorf("%s is in bits: write %sB for bytes", unit, unit[:len(unit)-1])
	case ok && known:
		return scale, nil
	}
	if _, bare := prefixes[lower]; bare {
		letter := strings.ToUpper(lower[:1])
		return 0, fmt.Errorf("%s can mean two things: write %sB (powers of 1000) or %siB (powers of 1024)", unit, letter, letter)
	}
	return 0, fmt.Errorf("%q is not a unit: use B, KB, MB, GB, TB, KiB, MiB, GiB or TiB", unit)
}

// ParseRate reads a rate in bits (400Gbit/s, 400Gb/s, 400Gbps) or in bytes
// (50GB/s, 1GiB/s) per second, into bytes per second.
func ParseRate(s string) (Rate, error) {
	number, unit, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("rate %q: %w, write for example 400Gbit/s", s, err)
	}
	scale, ok := rateScale(unit)
	if !ok {
		return 0, fmt.Errorf("rate %q: %q is not a unit: write Gbit/s for bits or GB/s for bytes per second", s, unit)
	}
	value := number * scale
	if value < 0 || math.IsInf(value, 0) {
		return 0, fmt.Errorf("rate %q is out of range", s)
	}
	return Rate(value), nil
}

// rateScale is the bytes per second in one unit.
func rateScale(unit string) (float64, bool) {
	what, ok := strings.CutSuffix(unit, "/s")
	if !ok {
		what, ok = strings.CutSuffix(unit, "ps")
	}
	if !ok {
		return 0, false
	}
	each := 0.0
	for suffix, bytes := range map[string]float64{"bit": 1.0 / 8, "b": 1.0 / 8, "B": 1} {
		if prefix, ok := strings.CutSuffix(what, suffix); ok {
			what, each = prefix, bytes
			break
		}
	}
	scale, known := prefixes[strings.ToLower(what)]
	return scale * each, known && each > 0
}

// ParseDuration reads a duration as Go writes it, and with d (24 h) and w
// (7 d) before the rest: 7d, 1w2d, 1d12h, 250ms. A number needs a unit.
func ParseDuration(s string) (time.Duration, error) {
	rest, sum := strings.TrimSpace(s), time.Duration(0)
	for _, u := range []struct {
		name string
		each time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		before, after, found := strings.Cut(rest, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(before, 10, 13)
		if err != nil {
			return 0, fmt.Errorf("duration %q: %q is not a whole number of %s, up to 8191", s, before, u.name)
		}
		sum, rest = sum+time.Duration(n)*u.each, after
		if rest == "" {
			return sum, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, fmt.Errorf("duration %q cannot be read: write for example 200ms, 90s, 1h30m or 7d", s)
	}
	if sum > 0 && (d < 0 || d > math.MaxInt64-sum) {
		return 0, fmt.Errorf("duration %q is out of range", s)
	}
	return sum + d, nil
}

// split separates a number from its unit.
func split(s string) (float64, string, error) {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsSpace(r) })
	if end < 0 {
		end = len(s)
	}
	number, err := strconv.ParseFloat(strings.ReplaceAll(s[:end], "_", ""), 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		return 0, "", fmt.Errorf("%q is not a number", s[:end])
	}
	return number, strings.TrimSpace(s[end:]), nil
}
