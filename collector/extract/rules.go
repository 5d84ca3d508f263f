package extract

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// The functions below make the rule of an attribute that becomes one field of a
// part, found by get.

func text(get func(*schema.Part) *string) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault { return r.text(v, get(r.p)) }
}

func integer(get func(*schema.Part) *int64) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault { return r.integer(v, get(r.p), 0, math.MaxInt64) }
}

func count(get func(*schema.Part) *schema.Count) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault { return r.count(v, get(r.p), r.limits.Count) }
}

func size(get func(*schema.Part) *schema.Count) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault { return r.count(v, get(r.p), r.limits.Bytes) }
}

func (r *reading) count(v Value, dst *schema.Count, most int64) *fault {
	dst.OK = true
	return r.integer(v, &dst.V, 0, most)
}

func seconds(get func(*schema.Part) *schema.Seconds) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault {
		dst := get(r.p)
		dst.OK = true
		return finite(v, &dst.V, 0, r.limits.Seconds)
	}
}

func path(get func(*schema.Part) *schema.Path) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault { return named(r, v, get(r.p), schema.ParsePath) }
}

// leg marks a rule as one of a replay's attributes.
func leg(set func(*reading, Value) *fault) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault {
		r.replay = true
		return set(r, v)
	}
}

// The functions below make the rule of one of the candidates' parallel arrays.

func column(set func(*reading, *schema.Candidate, Value) *fault) func(*reading, Value) *fault {
	return func(r *reading, v Value) *fault {
		if v.Type != TypeArray {
			return wrongType(v, TypeArray)
		}
		n, es := 0, v.Elements()
		var e Value
		for more, err := es.Next(&e); more || err != nil; more, err = es.Next(&e) {
			if err != nil {
				return faultf(CodeUndecodable, "element %d can not be read: %v", n, err)
			}
			c, f := r.candidate(n)
			if f == nil {
				f = set(r, c, e)
			}
			if f != nil {
				return faultf(f.code, "element %d: %s", n, f.reason)
			}
			n++
		}
		r.candidates = true
		if n != len(r.p.Decision.Candidates) {
			return faultf(CodeCandidates, "%d elements, other candidate arrays have %d", n, len(r.p.Decision.Candidates))
		}
		return nil
	}
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

func texts(get func(*schema.Candidate) *string) func(*reading, Value) *fault {
	return column(func(r *reading, c *schema.Candidate, v Value) *fault { return r.text(v, get(c)) })
}

func integers(most func(*Limits) int64, get func(*schema.Candidate) *int64) func(*reading, Value) *fault {
	return column(func(r *reading, c *schema.Candidate, v Value) *fault { return r.integer(v, get(c), -1, most(r.limits)) })
}

// floats is for numbers that may be NaN, which says "not applicable".
func floats(least, most func(*Limits) float64, get func(*schema.Candidate) *float64) func(*reading, Value) *fault {
	return column(func(r *reading, c *schema.Candidate, v Value) *fault {
		if v.Type == TypeDouble && math.IsNaN(v.Double()) {
			*get(c) = nan
			return nil
		}
		return finite(v, get(c), least(r.limits), most(r.limits))
	})
}

func zero(*Limits) float64           { return 0 }
func mostSeconds(l *Limits) float64  { return l.Seconds }
func minusSeconds(l *Limits) float64 { return -l.Seconds }
func mostTokens(l *Limits) int64     { return l.Count }
func mostBytes(l *Limits) int64      { return l.Bytes }
func mostRate(l *Limits) float64     { return float64(l.Bytes) } // all of the bytes in a second

func durations(get func(*schema.Candidate) *float64) func(*reading, Value) *fault {
	return floats(zero, mostSeconds, get)
}
