package kvspan_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

var update = flag.Bool("update", false, "rewrite golden files")

func contract() *schema.Part {
	return &schema.Part{Kind: schema.KindContract, RequestID: "req-1", StartNanos: 1796101720_000000001, EndNanos: 1796101721_500000000,
		Decision: schema.Decision{Policy: "priced", Revision: 7, Path: schema.PathFetch, Chosen: schema.Some(int64(0)), Model: "m",
			Worker: "w1", SourceTier: schema.TierCPU, TokensPrompt: schema.Some(int64(4096)), TokensReused: schema.Some(int64(0)),
			PrefixBlocks: []int64{1, -2}, Candidates: []schema.Candidate{
				{Path: schema.PathFetch, Worker: "w1", Tier: schema.TierCPU, Bytes: 1 << 28, TTFT: 0.75, Propensity: 0.75},
				{Path: schema.PathRecompute, Worker: "w1", Bytes: -1, TransferQueue: math.NaN(), TTFT: 0.25, Propensity: 0.25},
			}},
		Observed: schema.Observed{GPUQueue: schema.Some(0.0), TTFT: schema.Some(1.5)}}
}

func replay() *schema.Part {
	p := contract()
	p.Kind = schema.KindReplay
	p.Decision = schema.Decision{Model: "m", Worker: "w1"}
	p.Replay = schema.Replay{Of: schema.TraceID{0: 9}, OfSpan: schema.SpanID{0: 8}, Plan: "p1", Path: schema.PathRecompute,
		Candidate: schema.Some(int64(1)), Inclusion: 0.125, Leg: schema.LegControl, Batch: "b1", ReplayFlows: schema.Some(int64(0))}
	return p
}

func recorder(t *testing.T) (*tracetest.InMemoryExporter, trace.Tracer) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	return exporter, provider.Tracer("test")
}

func TestSpanIsThatOfTheContract(t *testing.T) {
	for name, p := range map[string]*schema.Part{"contract": contract(), "replay": replay()} {
		t.Run(name, func(t *testing.T) {
			exporter, tracer := recorder(t)
			traceID, spanID := kvspan.Write(context.Background(), tracer, p)
			got := exporter.GetSpans()[0]
			require.Equal(t, "kvreuse.request", got.Name)
			require.Equal(t, trace.SpanKindInternal, got.SpanKind)
			require.Equal(t, p.StartNanos, got.StartTime.UnixNano())
			require.Equal(t, p.EndNanos, got.EndTime.UnixNano())
			require.Equal(t, traceID.String(), got.SpanContext.TraceID().String())
			require.Equal(t, spanID.String(), got.SpanContext.SpanID().String())
			require.Zero(t, got.DroppedAttributes)
			golden(t, name+".txt", got.Attributes)
		})
	}
}

func golden(t *testing.T, name string, attributes []attribute.KeyValue) {
	t.Helper()
	var b strings.Builder
	for _, a := range attributes {
		fmt.Fprintf(&b, "%s %s %v\n", a.Key, a.Value.Type(), a.Value.AsInterface())
	}
	path := "testdata/" + name
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestSpanIsAChildOfTheContexts(t *testing.T) {
	exporter, tracer := recorder(t)
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	traceID, _ := kvspan.Write(trace.ContextWithRemoteSpanContext(context.Background(), parent), tracer, contract())
	require.Equal(t, schema.TraceID{1}, traceID)
	require.Equal(t, parent.SpanID(), exporter.GetSpans()[0].Parent.SpanID())
}

func TestProviderThatDoesNothing(t *testing.T) {
	traceID, spanID := kvspan.Write(context.Background(), noop.NewTracerProvider().Tracer(""), contract())
	require.Zero(t, traceID)
	require.Zero(t, spanID)
}

func ExampleWrite() {
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("my-router")

	decided := time.Unix(1796101720, 0)
	p := schema.Part{Kind: schema.KindContract, RequestID: "req-1", StartNanos: decided.UnixNano()}
	p.Decision = schema.Decision{Policy: "priced", Path: schema.PathRecompute, Model: "m", Worker: "w1"}
	p.Observed.TTFT = schema.Some(0.25)
	p.EndNanos = decided.Add(250 * time.Millisecond).UnixNano()
	kvspan.Write(context.Background(), tracer, &p)

	fmt.Println(exporter.GetSpans()[0].Name, len(exporter.GetSpans()[0].Attributes))
	// Output: kvreuse.request 6
}
