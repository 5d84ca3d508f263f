package publish

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

const now = 1796200000_000000000

// fake is a Producer that keeps what it is given, and how.
type fake struct {
	fail  map[string]error // by topic
	calls []string         // topics, in order
	sent  map[string][][]byte
}

func (f *fake) Produce(_ context.Context, topic string, messages ...kafka.Message) error {
	f.calls = append(f.calls, topic)
	if err := f.fail[topic]; err != nil {
		return err
	}
	for _, m := range messages {
		if len(m.Value) > wire.MaxMessage {
			return fmt.Errorf("%d bytes in a message", len(m.Value))
		}
		f.sent[topic] = append(f.sent[topic], slices.Clone(m.Value)) // its memory is used again
	}
	return nil
}

func newFake() *fake { return &fake{fail: map[string]error{}, sent: map[string][][]byte{}} }

func newPublisher(p Producer) *Publisher {
	out := New(p)
	out.now = func() time.Time { return time.Unix(0, now) }
	return out
}

// span is a contract span; a nil id makes it a bad one.
func span(id []byte, extra ...attribute.KeyValue) *tracepb.Span {
	s := &tracepb.Span{TraceId: []byte("0123456789abcdef"), SpanId: id, Name: schema.SpanName, StartTimeUnixNano: now, EndTimeUnixNano: now}
	for _, a := range extra {
		values := &commonpb.ArrayValue{}
		for _, h := range a.Value.AsInt64Slice() {
			values.Values = append(values.Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: h}})
		}
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: string(a.Key), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: values}}})
	}
	return s
}

func extracted(t *testing.T, spans ...*tracepb.Span) *extract.Result {
	t.Helper()
	b, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}}})
	require.NoError(t, err)
	r := new(extract.Result)
	limits := extract.DefaultLimits(now)
	limits.Blocks = 1 << 20
	require.NoError(t, extract.Extract(b, limits, r))
	return r
}

func parts(t *testing.T, messages [][]byte) (out []schema.Part) {
	for _, m := range messages {
		for frame, err := range wire.Frames(m) {
			require.NoError(t, err)
			var p schema.Part
			require.NoError(t, wire.DecodePart(frame, &p))
			out = append(out, p)
		}
	}
	return out
}

func letters(t *testing.T, messages [][]byte) (out []wire.DeadLetter) {
	for _, m := range messages {
		var l wire.DeadLetter
		require.NoError(t, wire.DecodeDeadLetter(m, &l))
		out = append(out, l)
	}
	return out
}

func TestPartsAndDeadLettersAreSent(t *testing.T) {
	f := newFake()
	r := extracted(t, span([]byte("00000001")), span(nil), span([]byte("00000003")))
	require.NoError(t, newPublisher(f).Publish(context.Background(), r))
	require.Equal(t, []string{schema.TopicParts, schema.TopicDead}, f.calls)
	require.Len(t, parts(t, f.sent[schema.TopicParts]), 2)
	got := letters(t, f.sent[schema.TopicDead])
	require.Len(t, got, 1)
	require.Equal(t, wire.SourceOTLP, got[0].Source)
	require.Equal(t, "kvreuse", got[0].Adapter)
	require.Equal(t, int64(1), got[0].Index)
	require.Equal(t, int64(now), got[0].AtNanos)
	require.Contains(t, got[0].Reason, "span id")
	require.False(t, got[0].Cut())

	// What is kept can be sent again.
	var again extract.Result
	require.NoError(t, extract.Extract(got[0].Bytes, extract.DefaultLimits(now), &again))
	require.Equal(t, got[0].Reason, again.Rejected[0].Reason)
}

func TestNothingToSend(t *testing.T) {
	f := newFake()
	require.NoError(t, newPublisher(f).Publish(context.Background(), new(extract.Result)))
	require.Empty(t, f.calls)
}

func TestEitherTopicFails(t *testing.T) {
	for topic, calls := range map[string]int{schema.TopicParts: 1, schema.TopicDead: 2} {
		for _, class := range []kafka.Class{kafka.Retryable, kafka.Permanent} {
			f := newFake()
			f.fail[topic] = &kafka.Error{Class: class, Text: "no"}
			err := newPublisher(f).Publish(context.Background(), extracted(t, span([]byte("00000001")), span(nil)))
			require.ErrorContains(t, err, "topic "+topic)
			require.Equal(t, class == kafka.Retryable, kafka.IsRetryable(err))
			require.Len(t, f.calls, calls)
		}
	}
}

func TestManyPartsAreSplit(t *testing.T) {
	var spans []*tracepb.Span
	for i := range 40 {
		spans = append(spans, span(fmt.Appendf(nil, "%08d", i), attribute.Int64Slice(schema.AttrPrefixBlocks, make([]int64, 8000))))
	}
	f := newFake()
	require.NoError(t, newPublisher(f).Publish(context.Background(), extracted(t, spans...)))
	require.Greater(t, len(f.sent[schema.TopicParts]), 2)
	require.Len(t, parts(t, f.sent[schema.TopicParts]), 40)
}

// A part that fits no message becomes a dead letter, and the others go on.
func TestPartTooLargeForAMessage(t *testing.T) {
	f := newFake()
	r := extracted(t, span([]byte("00000001")), span([]byte("00000002"), attribute.Int64Slice(schema.AttrPrefixBlocks, make([]int64, 200_000))), span([]byte("00000003")))
	require.Empty(t, r.Rejected)
	require.NoError(t, newPublisher(f).Publish(context.Background(), r))
	require.Len(t, r.Rejected, 1, "the sender is told")
	require.Equal(t, extract.CodeTooLarge, r.Rejected[0].Code)
	require.Len(t, parts(t, f.sent[schema.TopicParts]), 2)
	got := letters(t, f.sent[schema.TopicDead])
	require.Len(t, got, 1)
	require.True(t, got[0].Cut())
	require.Len(t, got[0].Bytes, wire.MaxDeadLetterBytes)
	require.Equal(t, int64(1), got[0].Index)
}

// Dead letters go out a few at a time: together they can be much more than their
// request.
func TestDeadLettersAreSentInChunks(t *testing.T) {
	f := newFake()
	r := extracted(t, span(nil))
	one := r.Rejected[0]
	one.Reason = strings.Repeat("x", 60<<10)
	r.Rejected = nil
	for range 200 {
		r.Rejected = append(r.Rejected, one)
	}
	require.NoError(t, newPublisher(f).Publish(context.Background(), r))
	require.Len(t, f.sent[schema.TopicDead], 200)
	require.Len(t, f.calls, 3)
}

// Two requests in turn share memory, and what was sent of the first stays as it
// was; after an error, when Kafka may still read it, they do not.
func TestMemoryIsUsedAgainOnlyOnceKafkaHasTheMessages(t *testing.T) {
	for _, failing := range []bool{false, true} {
		kept := &keeper{failing: failing}
		p := newPublisher(kept)
		for i := range 4 {
			id := []byte{1, 2, 3, 4, 5, 6, 7, byte(i + 1)}
			err := p.Publish(t.Context(), extracted(t, span(id)))
			require.Equal(t, failing, err != nil)
			if failing {
				require.False(t, slices.Contains(kept.addresses[:i], kept.addresses[i]), "memory of a request that failed was used again")
			}
		}
		for i, message := range kept.copies {
			require.Equal(t, byte(i+1), parts(t, [][]byte{message})[0].Span[7])
		}
	}
}

// keeper is a Producer that notes where messages lay.
type keeper struct {
	failing   bool
	addresses []*byte
	copies    [][]byte
}

func (k *keeper) Produce(_ context.Context, _ string, messages ...kafka.Message) error {
	for _, m := range messages {
		k.addresses = append(k.addresses, &m.Value[0])
		k.copies = append(k.copies, slices.Clone(m.Value))
	}
	if k.failing {
		return context.DeadlineExceeded
	}
	return nil
}

// BenchmarkPublish is what a request costs between extract and the client library.
func BenchmarkPublish(b *testing.B) {
	spans := make([]*tracepb.Span, 256)
	for i := range spans {
		spans[i] = span([]byte{1, 2, 3, 4, 5, 6, byte(i >> 8), byte(i)}, attribute.Int64Slice("kvreuse.prefix.blocks", make([]int64, 32)))
	}
	raw, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}}})
	require.NoError(b, err)
	r := new(extract.Result)
	require.NoError(b, extract.Extract(raw, extract.DefaultLimits(now), r))
	p := New(sink{})
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, p.Publish(b.Context(), r))
	}
}

type sink struct{}

func (sink) Produce(context.Context, string, ...kafka.Message) error { return nil }
