package units

import (
	"strconv"
	"time"
)

// String is the shortest exact form: 1GiB, 900KB, 512B.
func (b Bytes) String() string {
	if b == 0 {
		return "0B"
	}
	for _, u := range []struct {
		each int64
		name string
	}{
		{1 << 50, "PiB"}, {1e15, "PB"}, {1 << 40, "TiB"}, {1e12, "TB"}, {1 << 30, "GiB"}, {1e9, "GB"},
		{1 << 20, "MiB"}, {1e6, "MB"}, {1 << 10, "KiB"}, {1e3, "KB"},
	} {
		if int64(b)%u.each == 0 {
			return strconv.FormatInt(int64(b)/u.each, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// Set reads the text of a flag.
func (b *Bytes) Set(s string) error { return b.UnmarshalText([]byte(s)) }

// Type names the type in a flag's help.
func (b *Bytes) Type() string { return "size" }

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	value, err := ParseBytes(string(text))
	if err == nil {
		*b = value
	}
	return err
}

// MarshalText writes what UnmarshalText reads.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String is the rate in bits per second, as networks are named.
func (r Rate) String() string {
	bits := float64(r) * 8
	for _, u := range []struct {
		each float64
		name string
	}{{1e12, "Tbit/s"}, {1e9, "Gbit/s"}, {1e6, "Mbit/s"}, {1e3, "kbit/s"}} {
		if bits >= u.each {
			return strconv.FormatFloat(bits/u.each, 'g', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(bits, 'g', -1, 64) + "bit/s"
}

// Set reads the text of a flag.
func (r *Rate) Set(s string) error { return r.UnmarshalText([]byte(s)) }

// Type names the type in a flag's help.
func (r *Rate) Type() string { return "rate" }

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(text []byte) error {
	value, err := ParseRate(string(text))
	if err == nil {
		*r = value
	}
	return err
}

// MarshalText writes what UnmarshalText reads.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String is Go's form.
func (d Duration) String() string { return time.Duration(d).String() }

// Set reads the text of a flag.
func (d *Duration) Set(s string) error { return d.UnmarshalText([]byte(s)) }

// Type names the type in a flag's help.
func (d *Duration) Type() string { return "duration" }

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	value, err := ParseDuration(string(text))
	if err == nil {
		*d = Duration(value)
	}
	return err
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
