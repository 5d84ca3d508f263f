package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// letterBrokers are settings that reach each kind of broker: by directory, as of a
// running `kvwhatif up`, and by address.
var letterBrokers = map[string]func(*testing.T) *Settings{
	"embedded": func(t *testing.T) *Settings {
		s := DefaultSettings()
		s.Dir = t.TempDir()
		d, err := OpenDir(s.Dir)
		require.NoError(t, err)
		t.Cleanup(func() { d.Close() })
		b, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: d.Join("kafka")})
		require.NoError(t, err)
		t.Cleanup(b.Stop)
		d.State.KafkaAddr = b.Addr()
		require.NoError(t, d.Save())
		return &s
	},
	"apache": func(t *testing.T) *Settings {
		t.Cleanup(kafkatest.StopShared)
		s := DefaultSettings()
		s.Dir, s.Kafka = t.TempDir(), kafkatest.Shared(t).Cluster()
		return &s
	},
}

// request is one span as an OTLP request.
func request(t *testing.T, span *tracepb.Span) []byte {
	t.Helper()
	raw, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{
		{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{span}}}},
	}})
	require.NoError(t, err)
	return raw
}

func goodSpan(id byte) *tracepb.Span {
	now := uint64(time.Now().UnixNano())
	return &tracepb.Span{Name: schema.SpanName, TraceId: bytes.Repeat([]byte{id}, 16), SpanId: bytes.Repeat([]byte{id}, 8),
		StartTimeUnixNano: now, EndTimeUnixNano: now + 1}
}

// deadOnes are letters of every kind, by the code that they are to be listed under.
func deadOnes(t *testing.T) []wire.DeadLetter {
	t.Helper()
	late := goodSpan(7)
	late.EndTimeUnixNano = 5
	part := schema.Part{Kind: schema.KindContract, Adapter: "kvreuse", Trace: schema.TraceID{1}, Span: schema.SpanID{2}, StartNanos: 3e18, EndNanos: 3e18}
	frame := wire.AppendPart(nil, &part)
	at := func(index int64) wire.DeadLetter {
		return wire.DeadLetter{Source: wire.SourceKafka, Topic: schema.TopicParts, Partition: 2, Offset: 40, Index: index}
	}
	mended, garbage, conflict, version, cut := at(0), at(1), at(2), at(-1), at(3)
	mended.Reason, mended.Code = "field 4: 9 is no value of this schema version", "decode"
	garbage.Reason, garbage.Code = "field 1: wrong wire type", "garbage"
	conflict.Reason, conflict.Adapter = "span 02 of trace 01 came before with other content", "kvreuse"
	version.Reason = wire.ErrVersion.Error() + " 2, this program reads 1"
	cut.Reason, cut.Adapter = "its chosen (300) is not between 0 and 255", "kvreuse"
	mended.SetRecord(frame)
	garbage.SetRecord([]byte{0x0d, 1, 2, 3, 4})
	conflict.SetRecord(append(bytes.Clone(frame), 0x4a, 1, 'x'))
	version.SetRecord([]byte{8, 2, 18, 0})
	cut.SetRecord(bytes.Repeat([]byte{0x4a, 1, 'x'}, 30_000))
	door := wire.DeadLetter{Source: wire.SourceOTLP, Code: "unknown_name", Reason: "kvreuse.path is \"new\"", Adapter: "kvreuse", Index: 5}
	stays := wire.DeadLetter{Source: wire.SourceOTLP, Code: "time", Reason: "ends before it starts", Adapter: "kvreuse"}
	door.SetRecord(request(t, goodSpan(9)))
	stays.SetRecord(request(t, late))
	return []wire.DeadLetter{mended, garbage, conflict, version, cut, door, stays}
}

func bury(t *testing.T, s *Settings, letters []wire.DeadLetter) {
	t.Helper()
	cluster, err := deadLetters(s)
	require.NoError(t, err)
	require.NoError(t, (&Backend{Cluster: cluster}).ensureTopics(t.Context(), s))
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: cluster})
	require.NoError(t, err)
	defer w.Close()
	messages := []kafka.Message{{Value: []byte("no letter")}}
	for i := range letters {
		letters[i].AtNanos = time.Now().Add(-time.Hour).UnixNano() + int64(i)*1e9
		messages = append(messages, kafka.Message{Value: wire.AppendDeadLetter(nil, &letters[i])})
	}
	messages = append(messages, messages[1]) // a redelivery writes a letter twice
	require.NoError(t, w.Produce(t.Context(), schema.TopicDead, messages...))
}

// sentParts are the spans in the topic of parts, a message each.
func sentParts(t *testing.T, s *Settings) (spans []string) {
	t.Helper()
	cluster, err := deadLetters(s)
	require.NoError(t, err)
	require.NoError(t, kafka.Scan(t.Context(), cluster, schema.TopicParts, func(m kafka.Message) error {
		for frame, err := range wire.Frames(m.Value) {
			var p schema.Part
			if err := errors.Join(err, new(wire.Decoder).Part(frame, &p)); err != nil {
				return err
			}
			spans = append(spans, p.Span.String())
		}
		return nil
	}))
	return spans
}

func listed(t *testing.T, s *Settings, f LetterFilter) map[string]*Letter {
	t.Helper()
	list, err := Letters(t.Context(), s, f, 0)
	require.NoError(t, err)
	require.Equal(t, 1, list.Unreadable)
	out := map[string]*Letter{}
	for _, l := range list.Letters {
		out[l.Code] = l
	}
	require.Len(t, out, list.Total)
	return out
}

// What was refused is listed once, shown whole, and retried without being doubled:
// the mended go through and vanish from the list, the others stay with one retry
// more.
func TestDeadLettersAreRetriedOnce(t *testing.T) {
	for name, start := range letterBrokers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			bury(t, s, deadOnes(t))
			everything := LetterFilter{Partition: -1}
			before := listed(t, s, everything)
			require.Len(t, before, 7)
			require.Equal(t, []int{2, 1}, []int{before["decode"].Copies, before["time"].Copies})
			require.Equal(t, LetterCut, before["invalid"].State)
			require.Equal(t, LetterConflict, before["conflict"].State)

			dry := retried(t, s, RetryOptions{Filter: everything, DryRun: true})
			require.Empty(t, sentParts(t, s), "a dry run sends nothing")
			require.Equal(t, before, listed(t, s, everything), "and marks nothing")
			done := retried(t, s, RetryOptions{Filter: everything})
			require.Equal(t, dry.Letters, done.Letters, "a dry run says what will be")
			require.Equal(t, []int{2, 3, 2}, []int{done.Sent, done.Refused, done.Skipped})
			require.ElementsMatch(t, []string{"0200000000000000", "0909090909090909"}, sentParts(t, s))

			after := listed(t, s, everything)
			require.Len(t, after, 5)
			require.Equal(t, 1, after["time"].Attempts)
			require.Equal(t, LetterOpen, after["time"].State)
			all := everything
			all.All, all.Reason = true, "unknown_name"
			require.Equal(t, LetterSent, listed(t, s, all)["unknown_name"].State)

			again := retried(t, s, RetryOptions{Filter: everything})
			require.Equal(t, []int{0, 3}, []int{again.Sent, again.Refused})
			require.Len(t, sentParts(t, s), 2, "what went through is not sent again")
			require.Equal(t, 2, listed(t, s, everything)["time"].Attempts)
		})
	}
}

func retried(t *testing.T, s *Settings, o RetryOptions) *RetryResult {
	t.Helper()
	r, err := RetryLetters(t.Context(), s, o, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return r
}

// A refused letter that load refuses again, at a new offset, is one record with the
// retry noted.
func TestALetterThatLoadRefusesAgainIsOpenAgain(t *testing.T) {
	s := letterBrokers["embedded"](t)
	letters := deadOnes(t)[:1]
	bury(t, s, letters)
	f := LetterFilter{IDs: []string{listed(t, s, LetterFilter{Partition: -1})["decode"].ID}, Partition: -1}
	require.Equal(t, 1, retried(t, s, RetryOptions{Filter: f}).Sent)
	require.Empty(t, listed(t, s, LetterFilter{Partition: -1}))
	letters[0].Offset, letters[0].Code = 99, "invalid"
	cluster, err := deadLetters(s)
	require.NoError(t, err)
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: cluster})
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Produce(t.Context(), schema.TopicDead, kafka.Message{Value: wire.AppendDeadLetter(nil, &letters[0])}))
	open := listed(t, s, LetterFilter{Partition: -1})["invalid"]
	require.NotNil(t, open)
	require.Equal(t, []any{LetterOpen, 1, int64(99)}, []any{open.State, open.Attempts, open.From.Offset})
}

func TestLettersAreFilteredShownAndAskedFor(t *testing.T) {
	s := letterBrokers["embedded"](t)
	bury(t, s, deadOnes(t))
	for want, f := range map[int]LetterFilter{
		5: {Source: wire.SourceKafka, Partition: -1}, 2: {Source: wire.SourceOTLP, Partition: -1}, 4: {Adapter: "kvreuse", Partition: -1},
		1: {Reason: "ends before", Partition: -1}, 0: {Partition: 1},
	} {
		list, err := Letters(t.Context(), s, f, 0)
		require.NoError(t, err)
		require.Equal(t, want, list.Total, "%+v", f)
	}
	list, err := Letters(t.Context(), s, LetterFilter{Partition: -1}, 0)
	require.NoError(t, err)
	list, err = Letters(t.Context(), s, LetterFilter{Partition: -1, Since: list.Letters[2].At}, 1)
	require.NoError(t, err)
	require.Equal(t, 3, list.Total, "the newest come first")
	require.Len(t, list.Letters, 1)
	require.Contains(t, list.Text(), fmt.Sprintf("%d more: raise --limit", list.Total-1))
	require.Contains(t, list.Text(), "are no dead letters of this version")
	for code, texts := range map[string][]string{
		"decode": {"no value of this schema version", `"Span": "0200`}, "garbage": {"can be read only so far"}, "time": {"the door (OTLP)", `"traceId": "0707`, "mend what"},
		"invalid": {"65536 kept", "can not be retried"}, "conflict": {"would mix", `"Span": "0200`}, "version": {"the whole message", "00000000  08 02"},
	} {
		var all string
		for _, l := range mustList(t, s, code) {
			c, err := ShowLetter(t.Context(), s, l.ID)
			require.NoError(t, err)
			all += c.Text()
		}
		for _, text := range texts {
			require.Contains(t, all, text, code)
		}
	}
	for id, text := range map[string]string{"abc": "give 4 digits", "ffffffffffff": "is not there"} {
		_, err := ShowLetter(t.Context(), s, id)
		require.ErrorContains(t, err, text)
	}
	no := errors.New("no")
	_, err = RetryLetters(t.Context(), s, RetryOptions{Filter: LetterFilter{Partition: -1}, Ask: func(n int) error {
		require.Equal(t, 5, n)
		return no
	}}, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, no)
	require.Empty(t, sentParts(t, s))
}

func mustList(t *testing.T, s *Settings, code string) []*Letter {
	t.Helper()
	list, err := Letters(t.Context(), s, LetterFilter{Partition: -1, Reason: code}, 0)
	require.NoError(t, err)
	require.NotEmpty(t, list.Letters, code)
	return list.Letters
}

func TestDeadLettersNeedABroker(t *testing.T) {
	s := DefaultSettings()
	s.Dir = t.TempDir()
	_, err := Letters(t.Context(), &s, LetterFilter{}, 0)
	require.ErrorContains(t, err, "give --kafka HOST:PORT, or --dir")
	s.Kafka = kafka.Brokers("127.0.0.1:1")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = Letters(ctx, &s, LetterFilter{}, 0)
	require.True(t, strings.Contains(err.Error(), "is Kafka running at 127.0.0.1:1?"), "%v", err)
}
