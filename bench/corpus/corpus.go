// Package corpus makes OTLP export requests to measure with: encoded once, and
// then only patched, so that a sender costs little beside what it measures.
//
// The same seed gives the same bytes. Each span of each request has identifiers
// of its own, at random, so that every span becomes a row and nothing
// compresses that would not in a fleet.
package corpus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// variants is how many different requests are encoded. The values of attributes
// repeat after so many requests, the identifiers never.
const variants = 8

// patched bytes of a span in its encoded form, without tags and lengths.
const (
	traceBytes = 16
	spanBytes  = 8
	timeBytes  = 8
)

// Config says which requests to make.
type Config struct {
	Shape Shape
	Spans int           // a request
	Seed  uint64        // of values and identifiers
	Base  time.Time     // start of the first span
	Step  time.Duration // from one span's start to the next one's
}

// Requests makes the requests of one Config. It is safe for concurrent use.
type Requests struct {
	cfg       Config
	templates []template
}

// template is an encoded request, and where the bytes lie that differ.
type template struct {
	body  []byte
	spans []places
}

// places are offsets into a template's body; lasts is how long its span is.
type places struct {
	trace, span, start, end int
	lasts                   time.Duration
}

// New encodes the templates.
func New(cfg Config) (*Requests, error) {
	if cfg.Spans < 1 {
		return nil, errors.New("a request needs a span")
	}
	r := &Requests{cfg: cfg}
	for i := range variants {
		t, err := encode(cfg, rand.New(rand.NewPCG(cfg.Seed, uint64(i))))
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", cfg.Shape.Name, err)
		}
		r.templates = append(r.templates, t)
	}
	return r, nil
}

// Spans is how many a request has.
func (r *Requests) Spans() int { return r.cfg.Spans }

// SpanBytes is how many bytes a span has in a request, with its share of what
// the request has once.
func (r *Requests) SpanBytes() float64 {
	total := 0
	for _, t := range r.templates {
		total += len(t.body)
	}
	return float64(total) / float64(variants*r.cfg.Spans)
}

// Append writes request n at the end of dst. Spans begin Config.Step apart.
func (r *Requests) Append(dst []byte, n uint64) []byte {
	first := r.cfg.Base.Add(time.Duration(n) * time.Duration(r.cfg.Spans) * r.cfg.Step)
	return r.AppendAt(dst, n, first)
}

// AppendAt is Append with the first span's start chosen, such as now.
func (r *Requests) AppendAt(dst []byte, n uint64, first time.Time) []byte {
	t := &r.templates[n%variants]
	at := len(dst)
	dst = append(dst, t.body...)
	body, start := dst[at:], first.UnixNano()
	for i, p := range t.spans {
		trace, span := r.IDs(n, i)
		copy(body[p.trace:], trace[:])
		copy(body[p.span:], span[:])
		binary.LittleEndian.PutUint64(body[p.start:], uint64(start))
		binary.LittleEndian.PutUint64(body[p.end:], uint64(start+int64(p.lasts)))
		start += int64(r.cfg.Step)
	}
	return dst
}

// IDs are those of span i of request n.
func (r *Requests) IDs(n uint64, i int) (trace schema.TraceID, span schema.SpanID) {
	at := r.cfg.Seed*0x9e3779b97f4a7c15 + (n*uint64(r.cfg.Spans)+uint64(i))*3
	binary.LittleEndian.PutUint64(trace[:], mix(at))
	binary.LittleEndian.PutUint64(trace[8:], mix(at+1)|1)
	binary.LittleEndian.PutUint64(span[:], mix(at+2)|1)
	return trace, span
}

// mix is the finalizer of splitmix64 over a Weyl step.
func mix(x uint64) uint64 {
	x = (x + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// encode makes one template: spans with marks where the bytes differ, found
// again in the encoded request.
func encode(cfg Config, r *rand.Rand) (template, error) {
	spans := make([]*tracepb.Span, cfg.Spans)
	marks := make([][]byte, cfg.Spans)
	lasts := make([]time.Duration, cfg.Spans)
	for i := range spans {
		part := cfg.Shape.part(r)
		marks[i] = mark(r)
		lasts[i] = time.Duration(part.EndNanos)
		spans[i] = &tracepb.Span{
			TraceId: marks[i][:traceBytes], SpanId: marks[i][traceBytes:], Name: schema.SpanName,
			Kind:              tracepb.Span_SPAN_KIND_INTERNAL,
			StartTimeUnixNano: 1, EndTimeUnixNano: uint64(part.EndNanos),
			Attributes: attributes(kvspan.Attributes(part)),
		}
	}
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "service.name", Value: text("router")}}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "bench"}, Spans: spans}},
	}}})
	if err != nil {
		return template{}, err
	}
	t := template{body: body}
	return t, t.locate(marks, lasts)
}

// mark is bytes that stand nowhere else in a request.
func mark(r *rand.Rand) []byte {
	b := make([]byte, traceBytes+spanBytes)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}

// locate finds where the marks went. The encoder writes the fields of a span by
// their numbers: trace (1), span (2), name (5), kind (6), start (7), end (8).
func (t *template) locate(marks [][]byte, lasts []time.Duration) error {
	const tags, kind = 2, 2
	from := 0
	for i, m := range marks {
		at := bytes.Index(t.body[from:], m[:traceBytes])
		if at < 0 {
			return fmt.Errorf("span %d is not found in its request", i)
		}
		trace := from + at
		span := trace + traceBytes + tags
		start := span + spanBytes + tags + len(schema.SpanName) + kind + 1
		p := places{trace: trace, span: span, start: start, end: start + timeBytes + 1, lasts: lasts[i]}
		if !bytes.Equal(t.body[span:span+spanBytes], m[traceBytes:]) || binary.LittleEndian.Uint64(t.body[start:]) != 1 ||
			binary.LittleEndian.Uint64(t.body[p.end:]) != uint64(lasts[i]) {
			return fmt.Errorf("span %d has another layout than expected", i)
		}
		t.spans = append(t.spans, p)
		from = p.end
	}
	return nil
}
