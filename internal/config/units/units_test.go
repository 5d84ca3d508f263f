package units

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"1GiB": 1 << 30, "1 GiB": 1 << 30, "1gib": 1 << 30, "900KB": 900_000, "900kB": 900_000, "900kb": 900_000,
		"512": 512, "0": 0, "0B": 0, "1.5MiB": 3 << 19, "2TB": 2e12, " 64 KiB ": 64 << 10, "1_000": 1000, "1PiB": 1 << 50,
	} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.EqualValues(t, want, got, text)
	}
	for text, part := range map[string]string{
		"": "is not a number", "GiB": "is not a number", "1G": "can mean two things", "1Ki": "can mean two things",
		"1Gb": "in bits", "1Mib": "in bits", "1XB": "is not a unit", "-1B": "negative", "0.5B": "whole number",
		"99000000TB": "is too large", "1e400": "is not a", "NaN": "is not a number",
	} {
		_, err := ParseBytes(text)
		require.ErrorContains(t, err, part, text)
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{
		"400Gbit/s": 50e9, "400Gb/s": 50e9, "400Gbps": 50e9, "400 gbit/s": 50e9, "50GB/s": 50e9, "50GBps": 50e9,
		"1GiB/s": 1 << 30, "8bit/s": 1, "8bps": 1, "8Gibit/s": 1 << 30, "0B/s": 0, "12.5MB/s": 12.5e6,
	} {
		got, err := ParseRate(text)
		require.NoError(t, err, text)
		require.InEpsilon(t, want+1, float64(got)+1, 1e-12, text)
	}
	for text, part := range map[string]string{
		"": "is not a number", "400": "is not a unit", "400G": "is not a unit", "400Gbit": "is not a unit",
		"1X/s": "is not a unit", "-1GB/s": "out of range", "fast": "is not a number",
	} {
		_, err := ParseRate(text)
		require.ErrorContains(t, err, part, text)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"200ms": 200 * time.Millisecond, "7d": 168 * time.Hour, "1w2d": 216 * time.Hour, "1d12h": 36 * time.Hour,
		"1w": 168 * time.Hour, "0": 0, "1h30m": 90 * time.Minute, "-5s": -5 * time.Second, "2d0s": 48 * time.Hour,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "d", "1.5d", "1d2w", "1x", "xd", "99999999999d"} {
		_, err := ParseDuration(text)
		require.ErrorContains(t, err, "duration", text)
	}
}

func FuzzBytes(f *testing.F) {
	for _, s := range []string{"1GiB", "900KB", "512", "1G", "1.5MiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBytes(s)
		if err != nil {
			return
		}
		again, err := ParseBytes(b.String())
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}

func FuzzRate(f *testing.F) {
	for _, s := range []string{"400Gbit/s", "50GB/s", "1GiB/s", "400G"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		again, err := ParseRate(r.String())
		require.NoError(t, err)
		require.InDelta(t, 1, ratio(float64(again), float64(r)), 1e-9)
	})
}

func ratio(a, b float64) float64 {
	if a == b {
		return 1
	}
	return a / math.Max(b, math.SmallestNonzeroFloat64)
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"7d", "1w2d", "200ms", "5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d, again Duration
		if d.Set(s) != nil {
			return
		}
		require.NoError(t, again.Set(d.String()))
		require.Equal(t, d, again)
	})
}
