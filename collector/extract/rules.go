package extract

import (
	"math"
	"unsafe"

	"github.com/kvwhatif/kvwhatif/schema"
)

// rule says what becomes of one attribute. The makers below make one each; by
// makes one of any function.
type rule struct {
	key  string
	mask uint64 // place in reading.seen: bit
	word uint8  // and word
	op   op
	of   bound
	leg  bool    // it is one of a replay's attributes
	at   uintptr // where its field is in schema.Part, or in schema.Candidate for a column

	set   func(*reading, Value) *fault
	cell  func(*reading, *schema.Candidate, Value) *fault
	parse func(string) (uint8, bool)
}

// sets are the rules of an adapter by the key of the attribute.
type sets = map[string]rule

// op is what a rule does. It is a number for what most attributes need, so that
// reading.usual can do it at once: calling a function that does it takes longer
// than doing it.
type op uint8

const (
	opCall     op = iota // set
	opText               // a string
	opCount              // a schema.Count
	opInteger            // an int64
	opSeconds            // a schema.Seconds
	opName               // one of the numbers that parse gives names
	opTexts              // one of the candidates' arrays, of strings
	opNames              // one of names
	opIntegers           // one of int64
	opFloats             // one of float64
)

// bound is the least and the most of a number; ranges says what they are.
type bound uint8

const (
	anyCount bound = iota // int64, from 0
	tokens                // tokens, flows, requests
	bytesOf
	duration // seconds, from 0
	delay    // seconds, of either sign
	rate     // bytes/s
	share    // 0 to 1
	bounds
)

// ranges are the bounds that limits give, by bound. Integers in the candidates'
// arrays may be -1 too, which says "not applicable".
type ranges struct {
	ints   [bounds]int64
	floats [bounds]struct{ least, most float64 }
}

func (rs *ranges) set(l *Limits) {
	rs.ints[anyCount], rs.ints[tokens], rs.ints[bytesOf] = math.MaxInt64, l.Count, l.Bytes
	rs.floats[duration].most = l.Seconds
	rs.floats[delay].least, rs.floats[delay].most = -l.Seconds, l.Seconds
	rs.floats[share].most = 1
	rs.floats[rate].most = float64(l.Bytes) // all of the bytes in a second
}

// by makes a rule of a function.
func by(set func(*reading, Value) *fault) rule { return rule{op: opCall, set: set} }

// The functions below make the rule of an attribute that becomes one field of a
// part, found by get.

func text(get func(*schema.Part) *string) rule { return rule{op: opText, at: offset(get)} }

func integer(get func(*schema.Part) *int64) rule {
	return rule{op: opInteger, of: anyCount, at: offset(get)}
}

func count(get func(*schema.Part) *schema.Count) rule {
	return rule{op: opCount, of: tokens, at: offset(get)}
}

func size(get func(*schema.Part) *schema.Count) rule {
	return rule{op: opCount, of: bytesOf, at: offset(get)}
}

func seconds(get func(*schema.Part) *schema.Seconds) rule {
	return rule{op: opSeconds, of: duration, at: offset(get)}
}

// name is for the name of a path, tier or leg, that parse knows.
func name[T ~uint8](parse func(string) (T, bool), get func(*schema.Part) *T) rule {
	return rule{op: opName, at: offset(get), parse: numbers(parse)}
}

func numbers[T ~uint8](parse func(string) (T, bool)) func(string) (uint8, bool) {
	return func(s string) (uint8, bool) {
		x, ok := parse(s)
		return uint8(x), ok
	}
}

// leg marks a rule as one of a replay's attributes.
func leg(r rule) rule {
	r.leg = true
	return r
}

// The functions below make the rule of one of the candidates' parallel arrays.

func texts(get func(*schema.Candidate) *string) rule {
	return rule{op: opTexts, at: offset(get), cell: func(r *reading, c *schema.Candidate, v Value) *fault { return r.text(v, get(c)) }}
}

func names[T ~uint8](parse func(string) (T, bool), get func(*schema.Candidate) *T) rule {
	u := rule{op: opNames, at: offset(get), parse: numbers(parse)}
	u.cell = func(r *reading, c *schema.Candidate, v Value) *fault {
		return r.named(v, field[uint8](c, u.at), u.parse)
	}
	return u
}

func integers(of bound, get func(*schema.Candidate) *int64) rule {
	return rule{op: opIntegers, of: of, at: offset(get), cell: func(r *reading, c *schema.Candidate, v Value) *fault {
		return r.integer(v, get(c), -1, r.ranges.ints[of])
	}}
}

// floats is for numbers that may be NaN, which says "not applicable".
func floats(of bound, get func(*schema.Candidate) *float64) rule {
	return rule{op: opFloats, of: of, at: offset(get), cell: func(r *reading, c *schema.Candidate, v Value) *fault {
		if v.Type == TypeDouble && math.IsNaN(v.Double()) {
			*get(c) = nan
			return nil
		}
		within := r.ranges.floats[of]
		return finite(v, get(c), within.least, within.most)
	}}
}

func durations(get func(*schema.Candidate) *float64) rule { return floats(duration, get) }

// offset finds where in a struct the field is that get gives.
func offset[S, F any](get func(*S) *F) uintptr {
	probe := new(S)
	return uintptr(unsafe.Pointer(get(probe))) - uintptr(unsafe.Pointer(probe))
}

// field is the field of s that lies at an offset.
func field[F, S any](s *S, at uintptr) *F { return (*F)(unsafe.Add(unsafe.Pointer(s), at)) }
