package extract

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/vllm/*.pb")
	require.NoError(f, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add(request(f, spanOf(contract()), spanOf(replay())))
}

// On what protobuf's generated types can read, the walk sees what they see.
func FuzzWalk(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var want collectorpb.ExportTraceServiceRequest
		if proto.Unmarshal(b, &want) != nil {
			_ = new(walker).walk(b, func(*Span, error) error { return nil })
			return
		}
		b, err := proto.Marshal(&want) // one form of what can be written in several
		require.NoError(t, err)
		var spans []*tracepb.Span
		for _, rs := range want.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans = append(spans, ss.Spans...)
			}
		}
		require.NoError(t, new(walker).walk(b, func(got *Span, err error) error {
			require.NoError(t, err)
			sameSpan(t, spans[0], got)
			spans = spans[1:]
			return nil
		}))
		require.Empty(t, spans)
	})
}

func sameSpan(t *testing.T, want *tracepb.Span, got *Span) {
	require.Equal(t, string(want.TraceId), string(got.TraceID))
	require.Equal(t, string(want.SpanId), string(got.SpanID))
	require.Equal(t, string(want.ParentSpanId), string(got.ParentID))
	require.Equal(t, want.Name, string(got.Name))
	require.Equal(t, want.StartTimeUnixNano, got.StartNanos)
	require.Equal(t, want.EndTimeUnixNano, got.EndNanos)
	rest := want.Attributes
	var a Attribute
	for as := got.Attributes(); ; {
		more, err := as.Next(&a)
		require.NoError(t, err)
		if !more {
			break
		}
		require.Equal(t, rest[0].Key, string(a.Key))
		sameValue(t, rest[0].Value, a.Value)
		rest = rest[1:]
	}
	require.Empty(t, rest)
}

func sameValue(t *testing.T, want *commonpb.AnyValue, got Value) {
	switch v := want.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		require.Equal(t, TypeString, got.Type)
		require.Equal(t, v.StringValue, string(got.Bytes()))
	case *commonpb.AnyValue_BytesValue:
		require.Equal(t, TypeBytes, got.Type)
		require.Equal(t, string(v.BytesValue), string(got.Bytes()))
	case *commonpb.AnyValue_IntValue:
		require.Equal(t, TypeInt, got.Type)
		require.Equal(t, v.IntValue, got.Int())
	case *commonpb.AnyValue_BoolValue:
		require.Equal(t, TypeBool, got.Type)
		require.Equal(t, v.BoolValue, got.Int() != 0)
	case *commonpb.AnyValue_DoubleValue:
		require.Equal(t, TypeDouble, got.Type)
		require.Equal(t, v.DoubleValue == v.DoubleValue, got.Double() == got.Double())
		if v.DoubleValue == v.DoubleValue {
			require.Equal(t, v.DoubleValue, got.Double())
		}
	case *commonpb.AnyValue_ArrayValue:
		require.Equal(t, TypeArray, got.Type)
		rest := v.ArrayValue.GetValues()
		var e Value
		for es := got.Elements(); ; {
			more, err := es.Next(&e)
			require.NoError(t, err)
			if !more {
				break
			}
			sameValue(t, rest[0], e)
			rest = rest[1:]
		}
		require.Empty(t, rest)
	case *commonpb.AnyValue_KvlistValue:
		require.Equal(t, TypeKVList, got.Type)
	case nil:
		require.Equal(t, TypeNone, got.Type)
	}
}

// Whatever the bytes are, Extract neither panics nor lets through a part that
// breaks a limit, and every span is accounted for.
func FuzzExtract(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := DefaultLimits(now)
		var out Result
		if Extract(b, limits, &out) != nil {
			return
		}
		require.Equal(t, out.Spans, len(out.Parts)+len(out.Rejected)+out.Ignored)
		for i := range out.Parts {
			p := &out.Parts[i]
			require.NotZero(t, p.Trace)
			require.NotZero(t, p.Span)
			require.GreaterOrEqual(t, p.StartNanos, limits.EarliestNanos)
			require.GreaterOrEqual(t, p.EndNanos, p.StartNanos)
			if ttft := p.Observed.TTFT; ttft.OK {
				require.True(t, ttft.V >= 0 && ttft.V <= limits.Seconds, ttft.V)
			}
		}
		for i := range out.Rejected {
			require.NotEmpty(t, out.Rejected[i].Reason)
			require.NotEmpty(t, out.Rejected[i].Record())
		}
	})
}
