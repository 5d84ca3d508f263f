package extract

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// plain has 11 attributes and no candidates: about 300 B.
func plain() *schema.Part {
	p := contract()
	p.Parent = schema.SpanID{}
	p.Decision = schema.Decision{Policy: "seed", Tenant: "t07", Path: schema.PathResident, Model: "m70b", GPU: "H200", Worker: "w12",
		Link: "l3", LinkFlows: schema.Some(int64(4))}
	p.Observed = schema.Observed{GPUQueue: schema.Some(0.02), Prefill: schema.Some(0.15), TTFT: schema.Some(0.17)}
	p.RequestID = ""
	return p
}

// full is the contract span as a fleet writes it: some 2 KB with 3 candidates.
func full() *schema.Part {
	p := contract()
	p.Decision.PrefixBlocks = nil
	return p
}

// BenchmarkCollect measures what collect does with a request, in ns a span:
// "extract" makes parts, "collect" batches for Kafka too. "generated" is what
// only decoding the same bytes into protobuf's generated types costs, "walk" what
// only going over their attributes and the elements of their arrays costs, by
// protowire. The last two are the ratios of collect to those.
func BenchmarkCollect(b *testing.B) {
	vllm, err := os.ReadFile("testdata/vllm/vllm_spans_run1_grpc_15.pb")
	require.NoError(b, err)
	const spans = 256
	for _, shape := range []struct {
		name string
		req  []byte
	}{{"plain", request(b, repeat(spans, plain())...)}, {"contract", request(b, repeat(spans, full())...)}, {"vllm", vllm}} {
		b.Run(shape.name, func(b *testing.B) { benchmark(b, shape.req) })
	}
}

func repeat(n int, p *schema.Part) []*tracepb.Span {
	list := make([]*tracepb.Span, n)
	for i := range list {
		list[i] = spanOf(p)
	}
	return list
}

func benchmark(b *testing.B, req []byte) {
	var out Result
	limits := DefaultLimits(now)
	require.NoError(b, Extract(req, limits, &out))
	spans := out.Spans
	per := make(map[string]float64)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			per[name] = float64(b.Elapsed().Nanoseconds()) / float64(b.N*spans)
			b.ReportMetric(per[name], "ns/span")
			b.ReportMetric(float64(len(req)/spans), "B/span")
		})
	}
	run("generated", func() { _ = proto.Unmarshal(req, new(collectorpb.ExportTraceServiceRequest)) })
	run("walk", func() { sink += bareWalk(req, 0) })
	run("extract", func() { _ = Extract(req, limits, &out) })
	var batcher wire.Batcher
	run("collect", func() {
		_ = Extract(req, limits, &out)
		for i := range out.Parts {
			_ = batcher.Add(&out.Parts[i])
		}
		messages := batcher.Messages()
		sink += len(messages)
		batcher.Reuse(messages)
	})
	fmt.Printf("  ratios: collect is %.3f of generated, %.2f of walk\n", per["collect"]/per["generated"], per["collect"]/per["walk"])
}

var sink int

// levels are the fields that lead from a request to the elements of an
// attribute's array.
var levels = [...]protowire.Number{requestResourceSpans, resourceSpansScopes, scopeSpansSpans, spanAttributes, keyValueValue, anyArray, arrayValues, 0}

// bareWalk is what reading the request costs at least: each field that could
// matter is found, and nothing is made of it.
func bareWalk(b []byte, level int) (fields int) {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		b = b[n:]
		if typ == protowire.BytesType {
			m, n := protowire.ConsumeBytes(b)
			if number == levels[level] {
				fields += bareWalk(m, level+1)
			}
			b = b[n:]
		} else {
			b = b[protowire.ConsumeFieldValue(number, typ, b):]
		}
		fields++
	}
	return fields
}
