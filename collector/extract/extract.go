// Package extract turns an OTLP ExportTraceServiceRequest into parts: it walks
// the bytes, gives each span to the adapter that knows it (one adapter a file),
// and refuses with a reason what can not become a true row. It is pure.
//
// Spans that no adapter knows are counted and dropped: an engine's internal
// spans are not ours to store.
package extract

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Limits are the bounds outside which a span is refused.
type Limits struct {
	EarliestNanos int64 // Unix nanoseconds: start of the earliest span
	LatestNanos   int64 // Unix nanoseconds: end of the latest span

	AttributeBytes int     // of one attribute, encoded; AttrPrefixBlocks has Blocks instead
	TextBytes      int     // of one name that becomes a column
	Candidates     int     // of one decision
	Blocks         int     // of one prefix
	Seconds        float64 // one duration: more is a mistaken unit
	Bytes          int64   // moved by one request
	Count          int64   // tokens, flows, requests

	Parts    int // of one request, and
	Rejected int // spans of one request; with more the request is refused as a whole
}

// ErrTooMany is wrapped by the error of a request over Limits.Parts or
// Limits.Rejected: a smaller one may be taken.
var ErrTooMany = errors.New("too many spans in one request")

// DefaultLimits are the limits at the instant given (Unix nanoseconds): from the
// year 2000 to a day from now, for a clock may be wrong a little.
func DefaultLimits(nowNanos int64) Limits {
	const day = 86_400
	return Limits{
		EarliestNanos: 946_684_800_000_000_000, LatestNanos: nowNanos + day*1e9,
		AttributeBytes: 64 << 10, TextBytes: 1 << 10, Candidates: 256, Blocks: 1 << 16,
		Seconds: day, Bytes: 1 << 50, Count: 1 << 31,
		Parts: 50_000, Rejected: 10_000,
	}
}

// Result is what one request held. It can be used again: Extract overwrites it
// and reuses its memory.
type Result struct {
	Parts    []schema.Part // their strings point into the request: encode them before its bytes change
	Rejected []Reject
	Ignored  int // spans that no adapter knows
	Spans    int // all: parts, rejected and ignored

	origins []Origin // of each part
	walker  walker
	reading reading
	ranges  ranges
	limits  Limits
}

// Refuse adds to Rejected the span of part i, which turned out to be too large
// to be sent on. The part stays where it is.
func (out *Result) Refuse(i int, why error) {
	p := &out.Parts[i]
	out.Rejected = append(out.Rejected, Reject{Code: CodeTooLarge, Reason: why.Error(), Adapter: p.Adapter, Origin: out.origins[i]})
}

// adapter makes parts out of the spans of one name.
type adapter struct {
	name  string // Part.Adapter
	span  string // name of its spans
	scope string // and of their instrumentation scope; "": any
	kind  schema.Kind
	rules rules
	// finish checks the part as a whole, after its attributes are read.
	finish func(*reading) *fault
}

var adapters = [...]*adapter{&kvreuse, &vllm, &lmcache}

// Extract sorts the spans of an ExportTraceServiceRequest into out. The error is
// for a request that can not be decoded, or of which more spans are refused than
// limits allow: out is then of no use, and sending the same again is no use
// either.
func Extract(request []byte, limits Limits, out *Result) error {
	out.Parts, out.Rejected, out.origins = out.Parts[:0], out.Rejected[:0], out.origins[:0]
	out.Ignored, out.Spans = 0, 0
	out.reading.resource = resource{}
	out.limits = limits
	out.reading.limits, out.reading.ranges = &out.limits, &out.ranges
	out.ranges.set(&limits)
	err := out.walker.walk(request, func(s *Span, broken error) error {
		out.add(s, broken, &out.reading)
		if len(out.Rejected) > limits.Rejected {
			last := &out.Rejected[limits.Rejected]
			return fmt.Errorf("%w: more than %d are invalid, the last one because: %s", ErrTooMany, limits.Rejected, last.Reason)
		}
		if len(out.Parts) > limits.Parts {
			return fmt.Errorf("%w: more than %d are of requests, send smaller batches", ErrTooMany, limits.Parts)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read OTLP trace request: %w", err)
	}
	return nil
}

func (out *Result) add(s *Span, broken error, r *reading) {
	out.Spans++
	if broken != nil {
		out.reject(s, "", faultf(CodeUndecodable, "its bytes are no span: %v", broken))
		return
	}
	a := adapterOf(s)
	if a == nil {
		out.Ignored++
		return
	}
	n := len(out.Parts)
	out.Parts = slices.Grow(out.Parts, 1)[:n+1]
	r.begin(&out.Parts[n], a)
	if f := r.span(s, a); f != nil {
		out.Parts = out.Parts[:n]
		out.reject(s, a.name, f)
		return
	}
	out.origins = append(out.origins, out.origin(s))
}

func adapterOf(s *Span) *adapter {
	for _, a := range adapters {
		if string(s.Name) == a.span && (a.scope == "" || string(s.scopeName()) == a.scope) {
			return a
		}
	}
	return nil
}

// Reject is a span that was refused.
type Reject struct {
	Code    Code   // class of the reason, one of a few
	Reason  string // for people: which attribute, what is wrong with it
	Adapter string // "" where the span could not be read so far
	Origin
}

// Origin is where a span was in its request; what it holds points into that.
type Origin struct {
	Index int    // of the span in its request
	Span  []byte // the encoded Span message

	resource, scope [][]byte
}

func (out *Result) origin(s *Span) Origin {
	return Origin{Index: out.Spans - 1, Span: s.Raw, resource: s.Resource, scope: s.Scope}
}

func (out *Result) reject(s *Span, adapter string, f *fault) {
	out.Rejected = append(out.Rejected, Reject{Code: f.code, Reason: f.reason, Adapter: adapter, Origin: out.origin(s)})
}

// maxEnvelope bounds, in bytes, the resource and scope that Record repeats.
const maxEnvelope = 16 << 10

// Record gives the span as a request of its own, with its resource and scope, so
// that sending it again is a retry. A resource or scope of over 16 KiB is left
// out.
func (o *Origin) Record() []byte {
	scope := appendAll(nil, scopeSpansScope, o.scope)
	scope = appendMessage(scope, scopeSpansSpans, o.Span)
	spans := appendAll(nil, resourceSpansResource, o.resource)
	spans = appendMessage(spans, resourceSpansScopes, scope)
	return appendMessage(nil, requestResourceSpans, spans)
}

func appendAll(b []byte, number protowire.Number, messages [][]byte) []byte {
	total := 0
	for _, m := range messages {
		total += len(m)
	}
	if total > maxEnvelope {
		return b
	}
	for _, m := range messages {
		b = appendMessage(b, number, m)
	}
	return b
}

func appendMessage(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}
