package publish_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/collector/otlp"
	"github.com/kvwhatif/kvwhatif/collector/publish"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

func TestMain(m *testing.M) {
	code := m.Run()
	kafkatest.StopShared()
	os.Exit(code)
}

func span(id byte) *collectorpb.ExportTraceServiceRequest {
	now := uint64(time.Now().UnixNano())
	return &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{
		Name: schema.SpanName, TraceId: bytes.Repeat([]byte{id}, 16), SpanId: bytes.Repeat([]byte{id}, 8), StartTimeUnixNano: now, EndTimeUnixNano: now + 1,
	}}}}}}}
}

// A sender hears "come again" over both protocols while Apache Kafka is dead, and
// what it was told is accepted is there when Kafka is back.
func TestSendersWaitWhileKafkaIsDead(t *testing.T) {
	broker := kafkatest.Shared(t)
	require.NoError(t, kafka.EnsureTopics(t.Context(), broker.Cluster(), []kafka.TopicSpec{
		{Name: schema.TopicParts, Partitions: 2, Retention: time.Hour}, {Name: schema.TopicDead, Partitions: 1, Retention: time.Hour}}))
	quiet := slog.New(slog.DiscardHandler)
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: broker.Cluster(), Logger: quiet})
	require.NoError(t, err)
	cfg := otlp.Default()
	cfg.GRPC, cfg.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	r := otlp.New(cfg, publish.New(w), quiet)
	require.NoError(t, r.Start(t.Context()))
	t.Cleanup(func() { r.Shutdown(t.Context()); w.Close() })
	conn, err := grpc.NewClient(r.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	overHTTP := func(id byte) *http.Response {
		body, err := proto.Marshal(span(id))
		require.NoError(t, err)
		a, err := http.Post(fmt.Sprintf("http://%s/v1/traces", r.HTTPAddr()), "application/x-protobuf", bytes.NewReader(body))
		require.NoError(t, err)
		a.Body.Close()
		return a
	}
	overGRPC := func(id byte) error {
		_, err := collectorpb.NewTraceServiceClient(conn).Export(t.Context(), span(id))
		return err
	}
	require.Equal(t, 200, overHTTP(1).StatusCode)
	require.NoError(t, overGRPC(2))

	broker.Kill()
	refused := make(chan error, 1)
	go func() { refused <- overGRPC(3) }()
	a := overHTTP(4)
	require.Equal(t, 503, a.StatusCode)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Equal(t, codes.Unavailable, status.Code(<-refused))

	require.NoError(t, broker.Restart())
	require.Eventually(t, func() bool { return overHTTP(5).StatusCode == 200 }, 5*time.Minute, 50*time.Millisecond)
	there := map[byte]bool{}
	require.NoError(t, kafka.Scan(t.Context(), broker.Cluster(), schema.TopicParts, func(m kafka.Message) error {
		for frame, err := range wire.Frames(m.Value) {
			require.NoError(t, err)
			var p schema.Part
			require.NoError(t, wire.DecodePart(frame, &p))
			there[p.Span[0]] = true
		}
		return nil
	}))
	require.Subset(t, there, map[byte]bool{1: true, 2: true, 5: true})
}
