package e2e

import (
	"encoding/binary"
	"fmt"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kvwhatif/kvwhatif/e2e/otlptest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// contract is the n-th request of a test: all different, twenty to a second.
func contract(n int, base time.Time) *schema.Part {
	p := &schema.Part{Kind: schema.KindContract, RequestID: fmt.Sprintf("req-%06d", n)}
	binary.BigEndian.PutUint64(p.Trace[8:], uint64(n)+1)
	binary.BigEndian.PutUint64(p.Span[:], uint64(n)*2654435761+1)
	p.StartNanos = base.Add(time.Duration(n) * 50 * time.Millisecond).UnixNano()
	ttft := 0.2 + float64(n%97)/100
	p.EndNanos = p.StartNanos + int64(ttft*1e9)
	path := schema.Path(1 + n%2)
	p.Decision = schema.Decision{
		Policy: "e2e", Path: path, Chosen: schema.Some(int64(n % 2)), Model: "m", GPU: "g", Worker: fmt.Sprint("w", n%4), Link: "rack-1",
		TokensPrompt: schema.Some(int64(4096)), TokensPrefix: schema.Some(int64(2048)), TokensReused: schema.Some(int64(2048 * (1 - n%2))),
		Candidates: []schema.Candidate{
			{Path: schema.PathFetch, Worker: "w0", Tier: schema.TierCPU, Links: "rack-1", TTFT: 0.5, Externality: 0.1, Propensity: 0.5, Bytes: 1 << 28},
			{Path: schema.PathRecompute, Worker: "w0", TTFT: 0.6, Propensity: 0.5, Bytes: -1},
		},
	}
	p.Observed = schema.Observed{
		GPUQueue: schema.Some(0.05), ExposedStall: schema.Some(0.03), Restore: schema.Some(0.01), Prefill: schema.Some(ttft - 0.1), TTFT: schema.Some(ttft),
	}
	if path == schema.PathFetch {
		p.Decision.SourceTier = schema.TierCPU
		p.Observed.Bytes, p.Observed.Transfer, p.Observed.TransferStart = schema.Some(int64(1<<28)), schema.Some(0.04), schema.Some(0.01)
	}
	return p
}

// requestOf is an OTLP request of spans.
func requestOf(spans ...*trace.Span) *coltrace.ExportTraceServiceRequest {
	service := &common.KeyValue{Key: "service.name", Value: otlptest.Text("e2e")}
	return &coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{service}},
		ScopeSpans: []*trace.ScopeSpans{{Spans: spans}},
	}}}
}

// attributeOf is that of a name, which is added where it is missing.
func attributeOf(s *trace.Span, key string) *common.KeyValue {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a
		}
	}
	a := &common.KeyValue{Key: key}
	s.Attributes = append(s.Attributes, a)
	return a
}
