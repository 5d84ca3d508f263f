package extract

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
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

// On what protobuf's generated types can read, as it is written, the walk sees
// what they see. Of what they can not, it refuses the spans and attributes whose
// own framing is broken: what is wrong with a field that is not ours is not ours
// to refuse.
func FuzzWalk(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var want collectorpb.ExportTraceServiceRequest
		readable := proto.Unmarshal(b, &want) == nil
		var spans []*tracepb.Span
		for _, rs := range want.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans = append(spans, ss.Spans...)
			}
		}
		err := new(walker).walk(b, func(got *Span, broken error) error {
			fields, whole := framed(got.Raw)
			require.Equal(t, whole, broken == nil)
			alone := new(tracepb.Span)
			switch {
			case readable:
				sameSpan(t, spans[0], got)
				spans = spans[1:]
			case proto.Unmarshal(got.Raw, alone) == nil:
				sameSpan(t, alone, got)
			case whole:
				sameFraming(t, fields[spanAttributes], got)
			}
			return nil
		})
		if readable {
			require.NoError(t, err)
			require.Empty(t, spans)
		}
	})
}

// framed gives the length-delimited fields of a message by number, and whether
// all of it could be read.
func framed(b []byte) (fields map[protowire.Number][][]byte, whole bool) {
	fields = make(map[protowire.Number][][]byte)
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return fields, false
		}
		if typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			m, _ := protowire.ConsumeBytes(b[tag:])
			fields[number] = append(fields[number], m)
		}
		b = b[n:]
	}
	return fields, true
}

// sameFraming compares which attributes can be read.
func sameFraming(t *testing.T, attributes [][]byte, got *Span) {
	as := got.Attributes()
	var a Attribute
	for _, b := range attributes {
		fields, whole := framed(b)
		for _, v := range fields[keyValueValue] {
			_, ok := framed(v)
			whole = whole && ok
		}
		more, err := as.Next(&a)
		require.Equal(t, whole, err == nil)
		if !more {
			return
		}
	}
	more, err := as.Next(&a)
	require.NoError(t, err)
	require.False(t, more)
}

// What is read fast in the form that encoders write, and with care in another, is
// the same.
func FuzzForms(f *testing.F) {
	seeds(f)
	for _, c := range refused {
		s := spanOf(contract())
		c.spoil(s)
		if b, err := proto.Marshal(s); err == nil && len(b) < 1<<13 {
			f.Add(request(f, s))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := DefaultLimits(now)
		limits.AttributeBytes = 1 << 30 // the other form is longer
		var usual, other Result
		require.Equal(t, Extract(b, limits, &usual) == nil, Extract(unusual(b, 0), limits, &other) == nil)
		same(t, usual.Parts, other.Parts)
		require.Equal(t, len(usual.Rejected), len(other.Rejected))
		for i := range usual.Rejected {
			require.Equal(t, usual.Rejected[i].Code, other.Rejected[i].Code)
			require.Equal(t, usual.Rejected[i].Reason, other.Rejected[i].Reason)
		}
	})
}

// unusual writes a request again with lengths of more bytes than they need, down
// to the elements of arrays. What can not be read stays as it is.
func unusual(b []byte, level int) (out []byte) {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return append(out, b...)
		}
		if typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			m, _ := protowire.ConsumeBytes(b[tag:])
			if number == levels[level] {
				m = unusual(m, level+1)
			}
			out = protowire.AppendVarint(protowire.AppendTag(out, number, typ), uint64(len(m)))
			out[len(out)-1] |= 0x80
			out = append(append(out, 0), m...)
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
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
