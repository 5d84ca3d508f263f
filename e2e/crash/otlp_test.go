package crash

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// requestOf is an OTLP request of the items, in two scopes: LMCache's spans are
// known by theirs.
func (s *story) requestOf(items []item) *coltrace.ExportTraceServiceRequest {
	plain, cache := &trace.ScopeSpans{}, &trace.ScopeSpans{Scope: &common.InstrumentationScope{Name: "lmcache_mp.server"}}
	for _, it := range items {
		p := s.part(it)
		switch p.Kind {
		case schema.KindTransfer:
			cache.Spans = append(cache.Spans, lookupSpan(p))
		case schema.KindEngine:
			plain.Spans = append(plain.Spans, engineSpan(p))
		default:
			plain.Spans = append(plain.Spans, contractSpan(p, it.piece == piecePoison))
		}
	}
	name := &common.KeyValue{Key: "service.name", Value: text(service)}
	return &coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{name}}, ScopeSpans: []*trace.ScopeSpans{plain, cache},
	}}}
}

func spanOf(p *schema.Part, name string, attributes ...*common.KeyValue) *trace.Span {
	s := &trace.Span{TraceId: p.Trace[:], SpanId: p.Span[:], Name: name, Kind: trace.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(p.StartNanos), EndTimeUnixNano: uint64(p.EndNanos), Attributes: attributes}
	if p.Parent != (schema.SpanID{}) {
		s.ParentSpanId = p.Parent[:]
	}
	return s
}

func contractSpan(p *schema.Part, poison bool) *trace.Span {
	s := spanOf(p, schema.SpanName)
	for _, a := range kvspan.Attributes(p) {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: string(a.Key), Value: anyOf(a.Value)})
	}
	if poison {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: schema.AttrStateAge, Value: double(-1)})
	}
	return s
}

func engineSpan(p *schema.Part) *trace.Span {
	s := spanOf(p, "llm_request",
		&common.KeyValue{Key: "gen_ai.response.model", Value: text(p.Engine.Model)},
		&common.KeyValue{Key: "gen_ai.usage.prompt_tokens", Value: integer(p.Engine.TokensPrompt.V)},
		&common.KeyValue{Key: "gen_ai.latency.time_to_first_token", Value: double(p.Engine.TTFT.V)})
	if p.RequestID != "" {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: "gen_ai.request.id", Value: text(p.RequestID)})
	}
	return s
}

func lookupSpan(p *schema.Part) *trace.Span {
	s := spanOf(p, "mp.lookup_prefetch",
		&common.KeyValue{Key: "hit_tokens", Value: text(fmt.Sprint(p.Transfer.Tokens.V))},
		&common.KeyValue{Key: "l2_hit_tokens", Value: text("0")})
	if p.RequestID != "" {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: "session_id", Value: text(p.RequestID + "-0badcafe")})
	}
	return s
}

func anyOf(v attribute.Value) *common.AnyValue {
	switch v.Type() {
	case attribute.STRING:
		return text(v.AsString())
	case attribute.INT64:
		return integer(v.AsInt64())
	case attribute.FLOAT64:
		return double(v.AsFloat64())
	case attribute.STRINGSLICE:
		return array(v.AsStringSlice(), text)
	case attribute.INT64SLICE:
		return array(v.AsInt64Slice(), integer)
	case attribute.FLOAT64SLICE:
		return array(v.AsFloat64Slice(), double)
	}
	panic("no attribute of the contract is " + v.Type().String())
}

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func integer(n int64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}
}

func double(f float64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: f}}
}

func array[T any](values []T, of func(T) *common.AnyValue) *common.AnyValue {
	a := &common.ArrayValue{}
	for _, v := range values {
		a.Values = append(a.Values, of(v))
	}
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: a}}
}
