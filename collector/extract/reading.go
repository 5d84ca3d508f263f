package extract

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Code is the class of a reason for refusing a span: a label of a metric.
type Code string

// The codes.
const (
	CodeUndecodable Code = "undecodable"  // the bytes are no span
	CodeIdentifier  Code = "identifier"   // trace, span or parent id
	CodeTime        Code = "time"         // outside the limits, or the end before the start
	CodeType        Code = "type"         // another type than the attribute's
	CodeText        Code = "text"         // no UTF-8
	CodeSize        Code = "size"         // over a limit of bytes or elements
	CodeName        Code = "unknown_name" // of a path, tier or leg
	CodeNotFinite   Code = "not_finite"   // NaN or infinite
	CodeNegative    Code = "negative"     // duration, bytes or count
	CodeRange       Code = "out_of_range" // over a limit, or no probability
	CodeTwice       Code = "twice"        // an attribute that is there twice
	CodeCandidates  Code = "candidates"   // arrays that do not match, or a choice outside them
	CodeReplay      Code = "replay"       // a leg that says too little
	CodeTooLarge    Code = "too_large"    // the part fits no Kafka message
)

// Codes are all of them.
var Codes = []Code{CodeUndecodable, CodeIdentifier, CodeTime, CodeType, CodeText, CodeSize, CodeName, CodeNotFinite,
	CodeNegative, CodeRange, CodeTwice, CodeCandidates, CodeReplay, CodeTooLarge}

// fault is why a span is refused.
type fault struct {
	code   Code
	reason string
}

func faultf(code Code, format string, args ...any) *fault {
	return &fault{code, fmt.Sprintf(format, args...)}
}

// reading is the state while one span is read.
type reading struct {
	limits     *Limits
	ranges     *ranges
	p          *schema.Part
	seen       [2]uint64 // attributes that were there, by rule.word and rule.mask
	candidates bool      // the number of candidates is known
	replay     bool      // some attribute of a leg was there
	genAI      genAI
	slower     schema.Count // tokens that lmcache found in its slower tier
	resource   resource
}

// resource is what is known of the resource of the spans just read: many share
// one.
type resource struct {
	of      int // Span.resource
	service string
	fault   *fault
}

// genAI holds what the GenAI conventions name too; the contract's own attribute
// holds where both are there.
type genAI struct {
	model          string
	prompt, cached schema.Count
}

// begin makes r ready for another span, whose part is p; p keeps the memory of
// its slices.
func (r *reading) begin(p *schema.Part, a *adapter) {
	blocks, candidates := p.Decision.PrefixBlocks[:0], p.Decision.Candidates[:0]
	*p = schema.Part{}
	p.Kind, p.Adapter = a.kind, a.name
	p.Decision.PrefixBlocks, p.Decision.Candidates = blocks, candidates
	r.p, r.seen, r.candidates, r.replay, r.genAI, r.slower = p, [2]uint64{}, false, false, genAI{}, schema.Count{}
}

func (r *reading) span(s *Span, a *adapter) *fault {
	if f := r.head(s); f != nil {
		return f
	}
	if s.resource != r.resource.of {
		r.resource = resource{of: s.resource}
		r.resource.fault = r.service(s)
	}
	if r.resource.fault != nil {
		return r.resource.fault
	}
	r.p.Service = r.resource.service
	if f := r.attributes(s.attributes, a); f != nil {
		return f
	}
	return a.finish(r)
}

func (r *reading) count(v Value, dst *schema.Count, most int64) *fault {
	dst.OK = true
	return r.integer(v, &dst.V, 0, most)
}

func (r *reading) head(s *Span) *fault {
	p := r.p
	switch {
	case len(s.TraceID) != len(p.Trace) || allZero(s.TraceID):
		return faultf(CodeIdentifier, "trace id %x is not 16 bytes that are not all zero", clip(s.TraceID))
	case len(s.SpanID) != len(p.Span) || allZero(s.SpanID):
		return faultf(CodeIdentifier, "span id %x is not 8 bytes that are not all zero", clip(s.SpanID))
	case len(s.ParentID) != 0 && len(s.ParentID) != len(p.Parent):
		return faultf(CodeIdentifier, "parent span id %x is not 8 bytes", clip(s.ParentID))
	case s.StartNanos > math.MaxInt64 || int64(s.StartNanos) < r.limits.EarliestNanos:
		return faultf(CodeTime, "it starts at %d ns since 1970, before the earliest that is taken (%d)", s.StartNanos, r.limits.EarliestNanos)
	case s.EndNanos < s.StartNanos:
		return faultf(CodeTime, "it ends %d ns before it starts", s.StartNanos-s.EndNanos)
	case s.EndNanos > math.MaxInt64 || int64(s.EndNanos) > r.limits.LatestNanos:
		return faultf(CodeTime, "it ends at %d ns since 1970, after the latest that is taken (%d)", s.EndNanos, r.limits.LatestNanos)
	}
	copy(p.Trace[:], s.TraceID)
	copy(p.Span[:], s.SpanID)
	copy(p.Parent[:], s.ParentID)
	p.StartNanos, p.EndNanos = int64(s.StartNanos), int64(s.EndNanos)
	return nil
}

// service finds service.name among the resource's attributes.
func (r *reading) service(s *Span) *fault {
	for _, resource := range s.Resource {
		as := Attributes{resource, tagResourceAttribute}
		var attr Attribute
		for more, err := as.Next(&attr); more || err != nil; more, err = as.Next(&attr) {
			if err != nil {
				return faultf(CodeUndecodable, "its resource can not be read: %v", err)
			}
			if string(attr.Key) != "service.name" {
				continue
			}
			if f := r.text(attr.Value, &r.resource.service); f != nil {
				f.reason = "resource attribute service.name: " + f.reason
				return f
			}
		}
	}
	return nil
}

// text reads a string. It points into the request.
func (r *reading) text(v Value, dst *string) *fault {
	if v.Type != TypeString {
		return wrongType(v, TypeString)
	}
	if len(v.b) > r.limits.TextBytes {
		return faultf(CodeSize, "%d bytes, at most %d", len(v.b), r.limits.TextBytes)
	}
	if !isText(v.b) {
		return faultf(CodeText, "%q is not UTF-8", clip(v.b))
	}
	*dst = str(v.b)
	return nil
}

// isText is utf8.Valid, made for short names of ASCII.
func isText(b []byte) bool {
	var or byte
	for _, c := range b[:min(len(b), 16)] {
		or |= c
	}
	return or < utf8.RuneSelf && len(b) <= 16 || utf8.Valid(b)
}

// str is a string that shares the memory of b.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// integer reads an int from least to most.
func (r *reading) integer(v Value, dst *int64, least, most int64) *fault {
	if v.Type != TypeInt {
		return wrongType(v, TypeInt)
	}
	switch n := v.Int(); {
	case n < least:
		return faultf(CodeNegative, "%d is negative", n)
	case n > most:
		return faultf(CodeRange, "%d, at most %d", n, most)
	default:
		*dst = n
		return nil
	}
}

// float reads a double, or an int: some SDKs write 1.0 as 1.
func float(v Value) (float64, *fault) {
	switch v.Type {
	case TypeDouble:
		return v.Double(), nil
	case TypeInt:
		return float64(v.Int()), nil
	}
	return 0, wrongType(v, TypeDouble)
}

// finite reads a number from least to most.
func finite(v Value, dst *float64, least, most float64) *fault {
	x, f := float(v)
	switch {
	case f != nil:
		return f
	case x >= least && x <= most && !math.IsInf(x, 0):
		*dst = x
		return nil
	case math.IsNaN(x) || math.IsInf(x, 0):
		return faultf(CodeNotFinite, "%v is not finite", x)
	case x < least:
		return faultf(CodeNegative, "%v, at least %v", x, least)
	}
	return faultf(CodeRange, "%v, at most %v", x, most)
}

// probability reads a number in (0, 1].
func probability(v Value, dst *float64) *fault {
	x, f := float(v)
	if f == nil && !(x > 0 && x <= 1) {
		f = faultf(CodeRange, "%v is no probability in (0, 1]", x)
	}
	*dst = x
	return f
}

// named reads a name that parse knows.
func (r *reading) named(v Value, dst *uint8, parse func(string) (uint8, bool)) *fault {
	var s string
	if f := r.text(v, &s); f != nil {
		return f
	}
	x, ok := parse(s)
	if !ok {
		return faultf(CodeName, "%q is none of its values", clip([]byte(s)))
	}
	*dst = x
	return nil
}

func wrongType(v Value, want Type) *fault {
	return faultf(CodeType, "it is %v, not %v", v.Type, want)
}

func allZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// clip bounds what a reason repeats of the sender's bytes.
func clip(b []byte) string {
	const most = 80
	if len(b) <= most {
		return string(b)
	}
	return string(b[:most]) + "…"
}
