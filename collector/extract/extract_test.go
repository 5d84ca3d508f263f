package extract

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

var update = flag.Bool("update", false, "rewrite golden files")

const now = 1796200000_000000000

// anyValue writes an attribute value as the OTLP exporters of SDKs do.
func anyValue(x any) *commonpb.AnyValue {
	switch v := x.(type) {
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
	case int64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}
	case int:
		return anyValue(int64(v))
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case []byte:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v}}
	}
	list := reflect.ValueOf(x)
	array := &commonpb.ArrayValue{}
	for i := range list.Len() {
		array.Values = append(array.Values, anyValue(list.Index(i).Interface()))
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: array}}
}

func keyValues(attributes []attribute.KeyValue) (out []*commonpb.KeyValue) {
	for _, a := range attributes {
		out = append(out, &commonpb.KeyValue{Key: string(a.Key), Value: anyValue(a.Value.AsInterface())})
	}
	return out
}

// spanOf writes p as a coordinator does.
func spanOf(p *schema.Part) *tracepb.Span {
	s := &tracepb.Span{TraceId: p.Trace[:], SpanId: p.Span[:], Name: schema.SpanName, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(p.StartNanos), EndTimeUnixNano: uint64(p.EndNanos), Attributes: keyValues(kvspan.Attributes(p))}
	if p.Parent != (schema.SpanID{}) {
		s.ParentSpanId = p.Parent[:]
	}
	return s
}

func request(t testing.TB, spans ...*tracepb.Span) []byte { return requestOf(t, "s", spans...) }

func requestOf(t testing.TB, scope string, spans ...*tracepb.Span) []byte {
	t.Helper()
	b, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "service.name", Value: anyValue("router")}}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: scope}, Spans: spans}},
	}}})
	require.NoError(t, err)
	return b
}

func contract() *schema.Part {
	seconds, count := schema.Some[float64], schema.Some[int64]
	return &schema.Part{Kind: schema.KindContract, Adapter: "kvreuse", Service: "router", Trace: schema.TraceID{1}, Span: schema.SpanID{2},
		Parent: schema.SpanID{3}, StartNanos: now, EndNanos: now + 1_500_000_000, RequestID: "req-1",
		Decision: schema.Decision{Policy: "priced", Revision: 7, Tenant: "t1", Path: schema.PathFetch, Chosen: count(0), Model: "m",
			GPU: "H200", Worker: "w1", SourceWorker: "w2", SourceTier: schema.TierCPU, Link: "l1", TokensPrompt: count(4096),
			TokensPrefix: count(2048), TokensReused: count(2048), LinkFlows: count(0), WorkerActive: count(3), StateAge: seconds(0.25),
			PrefixBlocks: []int64{math.MinInt64, -1, 0, 1, math.MaxInt64},
			Candidates: []schema.Candidate{
				{Path: schema.PathFetch, Worker: "w1", Source: "w2", Tier: schema.TierCPU, Links: "l1+l2", TokensFetched: 2048,
					TokensComputed: 2048, Bytes: 1 << 28, TransferQueue: 0.5, Bandwidth: 5e10, Recompute: 0.125, TTFT: 0.75,
					Externality: -0.0625, Propensity: 0.75},
				{Path: schema.PathRecompute, Worker: "w1", TokensFetched: 0, TokensComputed: 4096, Bytes: -1, TransferQueue: math.NaN(),
					Bandwidth: math.NaN(), Restore: math.NaN(), Recompute: 0.25, TTFT: 0.25, Externality: math.NaN(), Propensity: 0.25},
				{Path: schema.PathRoute, Worker: "w2", TokensFetched: -1, Bytes: -1, Propensity: 0},
			}},
		Observed: schema.Observed{Bytes: count(1 << 28), GPUQueue: seconds(0), TransferQueue: seconds(0.5), Transfer: seconds(0.25),
			TransferStart: seconds(0.5), ExposedStall: seconds(0.75), Restore: seconds(0), Prefill: seconds(0.125), TTFT: seconds(1)}}
}

func replay() *schema.Part {
	p := contract()
	p.Kind = schema.KindReplay
	seconds, count := schema.Some[float64], schema.Some[int64]
	p.Decision = schema.Decision{Model: "m", GPU: "H200", Worker: "w1"}
	p.Replay = schema.Replay{Of: schema.TraceID{9}, OfSpan: schema.SpanID{8}, Plan: "p1", Path: schema.PathRecompute, Candidate: count(1),
		Inclusion: 0.125, Leg: schema.LegRejected, Batch: "b1", DecisionGPUQueue: seconds(0.5), DecisionFlows: count(4),
		ReplayGPUQueue: seconds(0), ReplayFlows: count(0), ModelDecision: seconds(0.5), ModelReplay: seconds(0.25), CostGPU: seconds(1),
		CostBytes: count(1)}
	return p
}

func same(t testing.TB, want, got any) {
	t.Helper()
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()))
}

// What kvspan writes, extract reads back: every field, through OTLP.
func TestContractRoundTrip(t *testing.T) {
	bare := &schema.Part{Kind: schema.KindContract, Adapter: "kvreuse", Service: "router", Trace: schema.TraceID{1}, Span: schema.SpanID{2},
		StartNanos: now, EndNanos: now}
	var out Result // used again on purpose
	for name, p := range map[string]*schema.Part{"contract": contract(), "replay": replay(), "bare": bare} {
		require.NoError(t, Extract(request(t, spanOf(p)), DefaultLimits(now), &out), name)
		require.Empty(t, out.Rejected, name)
		require.Len(t, out.Parts, 1, name)
		same(t, *p, out.Parts[0])
	}
}

func TestOwnAttributesHoldBeforeGenAI(t *testing.T) {
	s := spanOf(contract())
	s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: schema.AttrModel, Value: anyValue("own")},
		&commonpb.KeyValue{Key: schema.AttrTokensReused, Value: anyValue(5)})
	var out Result
	require.NoError(t, Extract(request(t, s), DefaultLimits(now), &out))
	require.Equal(t, "own", out.Parts[0].Decision.Model)
	require.Equal(t, schema.Some(int64(5)), out.Parts[0].Decision.TokensReused)
	require.Equal(t, schema.Some(int64(4096)), out.Parts[0].Decision.TokensPrompt)
}

func TestIntsAreTakenForDoubles(t *testing.T) {
	s := spanOf(contract())
	set(s, schema.AttrTTFT, 2)
	set(s, schema.AttrCandidateTTFT, []any{1, 0.5, 3})
	var out Result
	require.NoError(t, Extract(request(t, s), DefaultLimits(now), &out))
	require.Equal(t, schema.Some(2.0), out.Parts[0].Observed.TTFT)
	require.Equal(t, 3.0, out.Parts[0].Decision.Candidates[2].TTFT)
}

// set puts x in the place of an attribute of s, or adds it.
func set(s *tracepb.Span, key string, x any) {
	for _, a := range s.Attributes {
		if a.Key == key {
			a.Value = anyValue(x)
			return
		}
	}
	s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: key, Value: anyValue(x)})
}

func unset(s *tracepb.Span, key string) {
	kept := s.Attributes[:0]
	for _, a := range s.Attributes {
		if a.Key != key {
			kept = append(kept, a)
		}
	}
	s.Attributes = kept
}

func TestCapturedVLLM(t *testing.T) {
	var got strings.Builder
	parts := make(map[string][]schema.Part)
	files, err := filepath.Glob("testdata/vllm/*.pb")
	require.NoError(t, err)
	spans, ignored := 0, 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		var out Result
		require.NoError(t, Extract(b, DefaultLimits(now), &out))
		require.Empty(t, out.Rejected)
		spans, ignored = spans+out.Spans, ignored+out.Ignored
		for _, p := range out.Parts {
			e := p.Engine
			parts[p.RequestID] = append(parts[p.RequestID], p)
			fmt.Fprintf(&got, "%s %v %v parent %v %d+%d ns prompt %v output %v queue %.6f prefill %.6f decode %.6f ttft %.6f e2e %.6f\n",
				p.RequestID, p.Trace, p.Span, p.Parent, p.StartNanos, p.EndNanos-p.StartNanos, e.TokensPrompt.V, e.TokensOutput.V,
				e.Queue.V, e.Prefill.V, e.Decode.V, e.TTFT.V, e.E2E.V)
		}
	}
	require.Equal(t, 68, spans-ignored)
	fmt.Fprintf(&got, "%d spans, %d ignored\n", spans, ignored)
	golden(t, "vllm/parts_run1.golden", got.String())
	checkTruth(t, parts)
}

// checkTruth compares what extract made with what the clients saw.
func checkTruth(t *testing.T, parts map[string][]schema.Part) {
	f, err := os.Open("testdata/vllm/truth_run1.jsonl")
	require.NoError(t, err)
	defer f.Close()
	compared := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var truth struct {
			Case        string
			Response    string  `json:"response_id"`
			Prompt      int64   `json:"prompt_tokens"`
			Output      int64   `json:"completion_tokens"`
			TTFT        float64 `json:"client_ttft"`
			Wall        float64 `json:"client_wall"`
			Traceparent string
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &truth))
		of := parts[truth.Response]
		if truth.Prompt == 0 || len(of) != 1 || truth.Case == "n2" || truth.Case == "multi_prompt_batch" {
			continue
		}
		compared++
		e := of[0].Engine
		require.Equal(t, schema.Some(truth.Prompt), e.TokensPrompt, truth.Case)
		require.Equal(t, schema.Some(truth.Output), e.TokensOutput, truth.Case)
		require.LessOrEqual(t, e.E2E.V, truth.Wall, truth.Case)
		require.LessOrEqual(t, e.TTFT.V, e.E2E.V, truth.Case)
		if truth.TTFT > 0 {
			require.LessOrEqual(t, e.TTFT.V, truth.TTFT, truth.Case)
		}
		if sampled := strings.HasSuffix(truth.Traceparent, "-01") && len(truth.Traceparent) == 55; sampled {
			require.Equal(t, truth.Traceparent, fmt.Sprintf("00-%v-%v-01", of[0].Trace, of[0].Parent), truth.Case)
		}
	}
	require.Greater(t, compared, 50)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestVLLMRequestID(t *testing.T) {
	for id, want := range map[string]string{
		"cmpl-865c-0":                    "cmpl-865c",
		"cmpl-865c-1":                    "cmpl-865c-1",
		"chatcmpl-865c":                  "chatcmpl-865c",
		"cmpl-client-req-42-0":           "cmpl-client-req-42",
		"cmpl-kvwhatif-replay-p1-7-0":    "kvwhatif-replay-p1-7",
		"chatcmpl-kvwhatif-replay-p1-70": "kvwhatif-replay-p1-70",
		"own-0":                          "own-0",
		"":                               "",
	} {
		require.Equal(t, want, vllmRequestID(id))
	}
}

// In the steady state neither parts nor messages cost an allocation.
func TestExtractAllocatesNothing(t *testing.T) {
	req := request(t, spanOf(contract()), spanOf(replay()), spanOf(plain()))
	var out Result
	var batcher wire.Batcher
	limits := DefaultLimits(now)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if Extract(req, limits, &out) != nil || len(out.Parts) != 3 {
			panic("not read")
		}
		for i := range out.Parts {
			_ = batcher.Add(&out.Parts[i])
		}
		batcher.Reuse(batcher.Messages())
	}))
}
