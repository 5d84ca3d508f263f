package extract

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// BenchmarkExtract prints ns a span; "generated" is what only decoding the same
// bytes into protobuf's generated types costs, to compare with.
func BenchmarkExtract(b *testing.B) {
	vllm, err := os.ReadFile("testdata/vllm/vllm_spans_run1_grpc_15.pb")
	require.NoError(b, err)
	spans := make([]*tracepb.Span, 64)
	for i := range spans {
		spans[i] = spanOf(contract())
	}
	for name, req := range map[string][]byte{"contract": request(b, spans...), "vllm": vllm} {
		var out Result
		limits := DefaultLimits(now)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Extract(req, limits, &out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*out.Spans), "ns/span")
			b.ReportMetric(float64(len(req)/out.Spans), "B/span")
		})
		b.Run(name+"/generated", func(b *testing.B) {
			for b.Loop() {
				if err := proto.Unmarshal(req, new(collectorpb.ExportTraceServiceRequest)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*out.Spans), "ns/span")
		})
	}
}
