package crash

import (
	"fmt"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kvwhatif/kvwhatif/e2e/otlptest"
	"github.com/kvwhatif/kvwhatif/schema"
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
	name := &common.KeyValue{Key: "service.name", Value: otlptest.Text(service)}
	return &coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{name}}, ScopeSpans: []*trace.ScopeSpans{plain, cache},
	}}}
}

func contractSpan(p *schema.Part, poison bool) *trace.Span {
	s := otlptest.Contract(p)
	if poison {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: schema.AttrStateAge, Value: otlptest.Double(-1)})
	}
	return s
}

func engineSpan(p *schema.Part) *trace.Span {
	s := otlptest.Span(p, "llm_request",
		&common.KeyValue{Key: "gen_ai.response.model", Value: otlptest.Text(p.Engine.Model)},
		&common.KeyValue{Key: "gen_ai.usage.prompt_tokens", Value: otlptest.Integer(p.Engine.TokensPrompt.V)},
		&common.KeyValue{Key: "gen_ai.latency.time_to_first_token", Value: otlptest.Double(p.Engine.TTFT.V)})
	if p.RequestID != "" {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: "gen_ai.request.id", Value: otlptest.Text(p.RequestID)})
	}
	return s
}

func lookupSpan(p *schema.Part) *trace.Span {
	s := otlptest.Span(p, "mp.lookup_prefetch",
		&common.KeyValue{Key: "hit_tokens", Value: otlptest.Text(fmt.Sprint(p.Transfer.Tokens.V))},
		&common.KeyValue{Key: "l2_hit_tokens", Value: otlptest.Text("0")})
	if p.RequestID != "" {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: "session_id", Value: otlptest.Text(p.RequestID + "-0badcafe")})
	}
	return s
}
