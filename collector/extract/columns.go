package extract

import (
	"encoding/binary"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// column reads one of the candidates' arrays. What its elements are like in
// most spans is read by array; the rest, and what is wrong with it, by elements.
func (r *reading) column(u *rule, b []byte) *fault {
	n, rest := r.array(u, b)
	if len(rest) > 0 {
		var f *fault
		if n, f = r.elements(u, n, rest); f != nil {
			return f
		}
	}
	r.candidates = true
	if n != len(r.p.Decision.Candidates) {
		return faultf(CodeCandidates, "%d elements, other candidate arrays have %d", n, len(r.p.Decision.Candidates))
	}
	return nil
}

// elements reads those from number n, in any form, and gives how many there are.
func (r *reading) elements(u *rule, n int, rest []byte) (int, *fault) {
	es := Elements(rest)
	var e Value
	for more, err := es.Next(&e); more || err != nil; more, err = es.Next(&e) {
		if err != nil {
			return n, faultf(CodeUndecodable, "element %d can not be read: %v", n, err)
		}
		c, f := r.candidate(n)
		if f == nil {
			f = u.cell(r, c, e)
		}
		if f != nil {
			return n, faultf(f.code, "element %d: %s", n, f.reason)
		}
		n++
	}
	return n, nil
}

// array reads elements as far as they are in the usual form and within bounds,
// and gives how many they are and what is left of the array.
func (r *reading) array(u *rule, b []byte) (n int, rest []byte) {
	if !r.candidates {
		r.expect(b)
	}
	switch candidates := r.p.Decision.Candidates; u.op {
	case opFloats:
		return r.doubles(u, b, candidates)
	case opIntegers:
		return r.ints(u, b, candidates)
	default:
		return r.strings(u, b, candidates)
	}
}

// expect makes a candidate for each element of the first array.
func (r *reading) expect(b []byte) {
	d := &r.p.Decision
	for len(b) > 2 && b[0] == tagElement && b[1] < 0x80 && int(b[1]) <= len(b)-2 && len(d.Candidates) < r.limits.Candidates {
		d.Candidates = append(d.Candidates, notApplicable)
		b = b[2+int(b[1]):]
	}
}

// element gives the length of an element in the usual form whose AnyValue begins
// with that tag; it is at b[2:2+size]. It is 0 for another form.
func element(b []byte, tag byte) (size int) {
	if len(b) < 4 || b[0] != tagElement || b[1] >= 0x80 || b[2] != tag || int(b[1]) > len(b)-2 {
		return 0
	}
	return int(b[1])
}

func (r *reading) doubles(u *rule, b []byte, to []schema.Candidate) (n int, rest []byte) {
	const size = 2 + 1 + 8
	within := &r.ranges.floats[u.of]
	for n < len(to) && len(b) >= size && b[0] == tagElement && b[1] == size-2 && b[2] == tagDouble {
		x := math.Float64frombits(binary.LittleEndian.Uint64(b[3:]))
		if x != x {
			x = nan
		} else if !(x >= within.least && x <= within.most) {
			break
		}
		*field[float64](&to[n], u.at) = x
		b = b[size:]
		n++
	}
	return n, b
}

func (r *reading) ints(u *rule, b []byte, to []schema.Candidate) (n int, rest []byte) {
	most := r.ranges.ints[u.of]
	for n < len(to) {
		size := element(b, tagInt)
		if size == 0 {
			break
		}
		x, length := varint(b[3 : 2+size])
		if 1+length != size || int64(x) < -1 || int64(x) > most {
			break
		}
		*field[int64](&to[n], u.at) = int64(x)
		b = b[2+size:]
		n++
	}
	return n, b
}

func (r *reading) strings(u *rule, b []byte, to []schema.Candidate) (n int, rest []byte) {
	for n < len(to) {
		size := element(b, tagString)
		if size == 0 || int(b[3]) != size-2 || size-2 > r.limits.TextBytes || !u.put(&to[n], b[4:2+size]) {
			break
		}
		b = b[2+size:]
		n++
	}
	return n, b
}

// put is false for what is no text, or no name that is known.
func (u *rule) put(c *schema.Candidate, s []byte) bool {
	if u.op == opTexts {
		if !isText(s) {
			return false
		}
		*field[string](c, u.at) = str(s)
		return true
	}
	x, ok := u.parse(str(s))
	if ok {
		*field[uint8](c, u.at) = x
	}
	return ok
}

// candidate gives candidate n, and makes it where the number of candidates is
// not yet known.
func (r *reading) candidate(n int) (*schema.Candidate, *fault) {
	d := &r.p.Decision
	if n < len(d.Candidates) {
		return &d.Candidates[n], nil
	}
	if r.candidates {
		return nil, faultf(CodeCandidates, "other candidate arrays have %d elements", len(d.Candidates))
	}
	if n == r.limits.Candidates {
		return nil, faultf(CodeSize, "more than %d candidates", n)
	}
	d.Candidates = append(d.Candidates, notApplicable)
	return &d.Candidates[n], nil
}

var nan = math.NaN()

// notApplicable is a candidate of which nothing is said.
var notApplicable = schema.Candidate{TokensResident: -1, TokensFetched: -1, TokensComputed: -1, Bytes: -1, GPUQueue: nan, TransferQueue: nan,
	Bandwidth: nan, Restore: nan, Recompute: nan, TTFT: nan, Externality: nan, Propensity: nan}
