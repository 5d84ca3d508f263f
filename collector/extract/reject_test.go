package extract

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/schema"
)

// attr is a case that sets one attribute of a good contract span.
func attr(key string, x any) func(*tracepb.Span) {
	return func(s *tracepb.Span) { set(s, key, x) }
}

var refused = []struct {
	name  string
	spoil func(*tracepb.Span)
	code  Code
	want  string // in the reason
}{
	{"no trace id", func(s *tracepb.Span) { s.TraceId = nil }, CodeIdentifier, "trace id"},
	{"zero trace id", func(s *tracepb.Span) { s.TraceId = make([]byte, 16) }, CodeIdentifier, "trace id"},
	{"long trace id", func(s *tracepb.Span) { s.TraceId = bytes.Repeat([]byte{1}, 17) }, CodeIdentifier, "trace id"},
	{"no span id", func(s *tracepb.Span) { s.SpanId = nil }, CodeIdentifier, "span id"},
	{"zero span id", func(s *tracepb.Span) { s.SpanId = make([]byte, 8) }, CodeIdentifier, "span id"},
	{"short parent", func(s *tracepb.Span) { s.ParentSpanId = []byte{1} }, CodeIdentifier, "parent span id"},

	{"1970", func(s *tracepb.Span) { s.StartTimeUnixNano = 0 }, CodeTime, "before the earliest"},
	{"1999", func(s *tracepb.Span) { s.StartTimeUnixNano = 946_684_799_999_999_999 }, CodeTime, "before the earliest"},
	{"2100", func(s *tracepb.Span) { s.StartTimeUnixNano, s.EndTimeUnixNano = 4102444800e9, 4102444801e9 }, CodeTime, "after the latest"},
	{"past int64", func(s *tracepb.Span) { s.StartTimeUnixNano, s.EndTimeUnixNano = math.MaxUint64, math.MaxUint64 }, CodeTime, "starts at"},
	{"ends first", func(s *tracepb.Span) { s.EndTimeUnixNano = s.StartTimeUnixNano - 5 }, CodeTime, "5 ns before it starts"},

	{"negative duration", attr(schema.AttrTTFT, -0.5), CodeNegative, "kvreuse.ttft: -0.5"},
	{"NaN", attr(schema.AttrTransfer, math.NaN()), CodeNotFinite, "kvreuse.transfer: NaN"},
	{"infinite", attr(schema.AttrPrefill, math.Inf(1)), CodeNotFinite, "+Inf"},
	{"milliseconds", attr(schema.AttrRestore, 1.5e6), CodeRange, "at most 86400"},
	{"negative bytes", attr(schema.AttrBytes, -1), CodeNegative, "-1"},
	{"too many bytes", attr(schema.AttrBytes, int64(math.MaxInt64)), CodeRange, "at most"},
	{"negative tokens", attr(schema.AttrTokensPrefix, -1), CodeNegative, "-1"},
	{"negative tokens by GenAI", attr(schema.AttrGenAIInputTokens, -1), CodeNegative, "-1"},
	{"too many tokens", attr(schema.AttrTokensPrefix, int64(1)<<40), CodeRange, "at most"},
	{"negative revision", attr(schema.AttrRevision, -3), CodeNegative, "-3"},

	{"seconds as text", attr(schema.AttrTTFT, "0.5"), CodeType, "a string, not a double"},
	{"bytes as text", attr(schema.AttrBytes, "5"), CodeType, "a string, not an int"},
	{"bytes as double", attr(schema.AttrBytes, 5.0), CodeType, "a double, not an int"},
	{"policy as bool", attr(schema.AttrPolicy, true), CodeType, "a bool, not a string"},
	{"policy as bytes", attr(schema.AttrPolicy, []byte("x")), CodeType, "bytes, not a string"},
	{"chosen as text", attr(schema.AttrChosen, "0"), CodeType, "a string, not an int"},
	{"candidates as one number", attr(schema.AttrCandidateTTFT, 0.5), CodeType, "a double, not an array"},
	{"text among numbers", attr(schema.AttrCandidateTTFT, []any{0.5, "x", 0.5}), CodeType, "element 1: it is a string"},
	{"blocks as text", attr(schema.AttrPrefixBlocks, []any{"a"}), CodeType, "a string, not an int"},
	{"blocks as one number", attr(schema.AttrPrefixBlocks, 5), CodeType, "an int, not an array"},
	{"nested arrays", attr(schema.AttrCandidateTTFT, []any{[]any{1.0}, 1.0, 1.0}), CodeType, "an array, not a double"},
	{"no value", func(s *tracepb.Span) {
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: schema.AttrModel})
	}, CodeType, "nothing, not a string"},

	{"2 MB attribute", attr("prompt", strings.Repeat("x", 2<<20)), CodeSize, "at most 65536"},
	{"long name", attr(schema.AttrModel, strings.Repeat("x", 1025)), CodeSize, "at most 1024"},
	{"too many candidates", func(s *tracepb.Span) {
		unset(s, schema.AttrCandidatePath)
		s.Attributes = append([]*commonpb.KeyValue{{Key: schema.AttrCandidatePath, Value: anyValue(make([]string, 257))}}, s.Attributes...)
	}, CodeSize, "more than 256 candidates"},
	{"too many blocks", attr(schema.AttrPrefixBlocks, make([]int64, 1<<16+1)), CodeSize, "more than 65536 blocks"},
	{"twice", func(s *tracepb.Span) {
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: schema.AttrTTFT, Value: anyValue(1.0)})
	}, CodeTwice, "kvreuse.ttft: it is there twice"},

	{"unknown path", attr(schema.AttrPath, "teleport"), CodeName, `"teleport"`},
	{"unknown tier", attr(schema.AttrSourceTier, "tape"), CodeName, `"tape"`},
	{"unknown candidate path", attr(schema.AttrCandidatePath, []string{"fetch", "teleport", "route"}), CodeName, `element 1: "teleport"`},
	{"unknown candidate tier", attr(schema.AttrCandidateTier, []string{"cpu", "", "tape"}), CodeName, `element 2: "tape"`},

	{"shorter array", attr(schema.AttrCandidateTTFT, []float64{1, 2}), CodeCandidates, "2 elements, other candidate arrays have 3"},
	{"longer array", attr(schema.AttrCandidateTTFT, []float64{1, 2, 3, 4}), CodeCandidates, "other candidate arrays have 3"},
	{"empty array", attr(schema.AttrCandidateTTFT, []float64{}), CodeCandidates, "0 elements"},
	{"candidates without path", func(s *tracepb.Span) { unset(s, schema.AttrCandidatePath) }, CodeCandidates, "candidate 0 has no path"},
	{"infinite candidate", attr(schema.AttrCandidateTTFT, []float64{1, math.Inf(1), 3}), CodeNotFinite, "element 1"},
	{"negative candidate", attr(schema.AttrCandidateGPUQueue, []float64{1, -2, 3}), CodeNegative, "element 1"},
	{"candidate tokens -2", attr(schema.AttrCandidateTokensFetched, []int64{0, -2, 0}), CodeNegative, "element 1"},
	{"chosen past the end", attr(schema.AttrChosen, 3), CodeCandidates, "is 3 and there are 3 candidates"},
	{"chosen -1", attr(schema.AttrChosen, -1), CodeCandidates, "is -1"},
	{"chosen of another path", attr(schema.AttrChosen, 1), CodeCandidates, `is "fetch" and the chosen candidate's path is "recompute"`},
	{"propensity below 0", attr(schema.AttrCandidatePropensity, []float64{-0.1, 0.5, 0.5}), CodeNegative, "element 0"},
	{"propensities above 1", attr(schema.AttrCandidatePropensity, []float64{0.5, 0.5, 0.5}), CodeRange, "sums to 1.5"},
	{"prefix beyond the prompt", attr(schema.AttrTokensPrefix, int64(1)<<30), CodeRange, "the prompt has"},
	{"more reused than the prompt", attr(schema.AttrTokensReused, int64(1)<<30), CodeRange, "the prompt has"},
	{"propensity 0 of the choice", attr(schema.AttrCandidatePropensity, []float64{0, 0, 0}), CodeRange, "was chosen"},
	{"propensity 1.5", attr(schema.AttrCandidatePropensity, []float64{0.5, 1.5, 0.5}), CodeRange, "element 1"},

	{"replay without of", attr(schema.AttrReplayLeg, "control"), CodeReplay, schema.AttrReplayOf},
	{"replay of no id", attr(schema.AttrReplayOf, "xyz"), CodeIdentifier, "hex digits"},
	{"replay of zeros", attr(schema.AttrReplayOf, strings.Repeat("0", 32)), CodeIdentifier, "no identifier"},
	{"unknown leg", attr(schema.AttrReplayLeg, "third"), CodeName, `"third"`},
	{"inclusion 0", attr(schema.AttrReplayInclusion, 0.0), CodeRange, "no probability"},
	{"inclusion NaN", attr(schema.AttrReplayInclusion, math.NaN()), CodeRange, "no probability"},
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			bad, before, after := spanOf(contract()), spanOf(contract()), spanOf(replay())
			c.spoil(bad)
			var out Result
			require.NoError(t, Extract(request(t, before, bad, after), DefaultLimits(now), &out))
			require.Len(t, out.Rejected, 1)
			got := out.Rejected[0]
			require.Equal(t, c.code, got.Code, got.Reason)
			require.Contains(t, got.Reason, c.want)
			require.Less(t, len(got.Reason), 500)
			require.Equal(t, "kvreuse", got.Adapter)
			require.Equal(t, 1, got.Index)
			require.Equal(t, 3, out.Spans)
			require.Len(t, out.Parts, 2, "the others go on")
			same(t, *contract(), out.Parts[0])
			same(t, *replay(), out.Parts[1])

			// The record is a request that is refused for the same reason.
			var again Result
			require.NoError(t, Extract(got.Record(), DefaultLimits(now), &again))
			require.Len(t, again.Rejected, 1)
			require.Equal(t, got.Reason, again.Rejected[0].Reason)
			require.Equal(t, got.Record(), again.Rejected[0].Record())
		})
	}
}

func TestReplayThatSaysTooLittle(t *testing.T) {
	for _, key := range []string{schema.AttrReplayOf, schema.AttrReplaySpan, schema.AttrReplayLeg, schema.AttrReplayPath, schema.AttrReplayInclusion} {
		s := spanOf(replay())
		unset(s, key)
		var out Result
		require.NoError(t, Extract(request(t, s), DefaultLimits(now), &out))
		require.Len(t, out.Rejected, 1, key)
		require.Equal(t, CodeReplay, out.Rejected[0].Code)
		require.Contains(t, out.Rejected[0].Reason, key)
	}
}

func TestBadServiceName(t *testing.T) {
	for want, x := range map[string]any{"not a string": 5, "at most 1024": strings.Repeat("x", 2000)} {
		var req collectorpb.ExportTraceServiceRequest
		require.NoError(t, proto.Unmarshal(request(t, spanOf(contract())), &req))
		req.ResourceSpans[0].Resource.Attributes[0].Value = anyValue(x)
		b, err := proto.Marshal(&req)
		require.NoError(t, err)
		var out Result
		require.NoError(t, Extract(b, DefaultLimits(now), &out))
		require.Len(t, out.Rejected, 1)
		require.Contains(t, out.Rejected[0].Reason, want)
	}
}

func TestNotUTF8(t *testing.T) {
	s := spanOf(contract())
	set(s, schema.AttrModel, "MODELX")
	b := bytes.Replace(request(t, s), []byte("MODELX"), []byte("MODEL\xff"), 1)
	var out Result
	require.NoError(t, Extract(b, DefaultLimits(now), &out))
	require.Equal(t, CodeText, out.Rejected[0].Code)
}

func TestOtherSpansAreIgnored(t *testing.T) {
	s := spanOf(contract())
	s.Name, s.TraceId = "GET /", nil
	var out Result
	require.NoError(t, Extract(request(t, s), DefaultLimits(now), &out))
	require.Equal(t, 1, out.Ignored)
	require.Equal(t, 1, out.Spans)
	require.Empty(t, out.Parts)
	require.Empty(t, out.Rejected)
}

func TestUndecodableRequest(t *testing.T) {
	good := request(t, spanOf(contract()))
	var out Result
	for _, b := range [][]byte{good[:len(good)-1], []byte("not OTLP"), append(bytes.Clone(good), 0x0a)} {
		require.ErrorContains(t, Extract(b, DefaultLimits(now), &out), "read OTLP trace request")
	}
	require.NoError(t, Extract(nil, DefaultLimits(now), &out), "no spans are no error")
	require.Zero(t, out.Spans)
}

// A span that is cut inside is refused alone; what frames it is whole.
func TestUndecodableSpan(t *testing.T) {
	good, err := proto.Marshal(spanOf(contract()))
	require.NoError(t, err)
	r := Origin{Span: good[:len(good)-3]}
	bad := r.Record()
	r.Span = good
	var out Result
	require.NoError(t, Extract(append(bad, r.Record()...), DefaultLimits(now), &out))
	require.Len(t, out.Parts, 1)
	require.Len(t, out.Rejected, 1)
	require.Equal(t, CodeUndecodable, out.Rejected[0].Code)
	require.Equal(t, bad, out.Rejected[0].Record())
}

func TestTooManyParts(t *testing.T) {
	limits := DefaultLimits(now)
	limits.Parts = 2
	var out Result
	one := spanOf(contract())
	require.NoError(t, Extract(request(t, one, one), limits, &out))
	require.ErrorIs(t, Extract(request(t, one, one, one), limits, &out), ErrTooMany)
}

func TestTooManyRejected(t *testing.T) {
	bad := spanOf(contract())
	bad.SpanId = nil
	limits := DefaultLimits(now)
	limits.Rejected = 2
	var out Result
	require.NoError(t, Extract(request(t, bad, bad), limits, &out))
	require.ErrorContains(t, Extract(request(t, bad, bad, bad), limits, &out), "more than 2 are invalid")
}

func TestHugeResourceIsNotRepeated(t *testing.T) {
	r := Origin{Span: []byte{0x2a, 1, 'x'}, resource: [][]byte{make([]byte, maxEnvelope+1)}}
	require.Less(t, len(r.Record()), 20)
}
