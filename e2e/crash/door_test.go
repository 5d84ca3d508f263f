package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/kvwhatif/kvwhatif/e2e/otlptest"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// A door takes items in. It gives how many spans were refused, or an error and
// whether the sender may try again by OTLP's rules.
type door func(ctx context.Context, s *story, items []item) (refused int64, retry bool, err error)

const exportLimit = 30 * time.Second

func grpcDoor(t *testing.T, addr string) door {
	t.Helper()
	quick := backoff.Config{BaseDelay: retryPause, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	client := coltrace.NewTraceServiceClient(conn)
	return func(ctx context.Context, s *story, items []item) (int64, bool, error) {
		answer, err := client.Export(ctx, s.requestOf(items))
		switch status.Code(err) {
		case codes.OK:
			return answer.GetPartialSuccess().GetRejectedSpans(), false, nil
		case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
			return 0, true, err
		}
		return 0, false, err
	}
}

func httpDoor(addr string, asJSON bool) door {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	media, encode, decode := "application/x-protobuf", proto.Marshal, proto.Unmarshal
	if asJSON {
		media, encode, decode = "application/json", otlptest.JSON, protojson.Unmarshal
	}
	return func(ctx context.Context, s *story, items []item) (int64, bool, error) {
		body, err := encode(s.requestOf(items))
		if err != nil {
			return 0, false, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/traces", bytes.NewReader(body))
		if err != nil {
			return 0, false, err
		}
		r.Header.Set("Content-Type", media)
		answer, err := client.Do(r)
		if err != nil {
			return 0, true, err
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		switch answer.StatusCode {
		case http.StatusOK:
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return 0, true, fmt.Errorf("%s: %s", answer.Status, said)
		default:
			return 0, false, fmt.Errorf("%s: %s", answer.Status, said)
		}
		var response coltrace.ExportTraceServiceResponse
		if err == nil {
			err = decode(said, &response)
		}
		return response.GetPartialSuccess().GetRejectedSpans(), err != nil, err
	}
}

// kafkaDoor is for what comes past the collector: transfers of a connector, and
// what can not be read.
func kafkaDoor(t *testing.T, addr string) door {
	t.Helper()
	writer, err := kafka.NewWriter(kafka.WriterConfig{Cluster: kafka.Brokers(addr)})
	require.NoError(t, err)
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { writer.Close() }) })
	return func(ctx context.Context, s *story, items []item) (int64, bool, error) {
		err := writer.Produce(ctx, schema.TopicParts, s.messages(items)...)
		return 0, kafka.IsRetryable(err), err
	}
}

// messages are the items as they lie in Kafka: garbage by itself, the rest in one.
func (s *story) messages(items []item) (out []kafka.Message) {
	var parts []*schema.Part
	for _, it := range items {
		if it.piece == pieceGarbage {
			out = append(out, kafka.Message{Value: garbage(it)})
			continue
		}
		p := s.part(it)
		if it.piece == pieceBad {
			p.Kind, p.Trace = schema.KindTransfer, schema.TraceID{}
		}
		parts = append(parts, p)
	}
	if len(parts) > 0 {
		out = append(out, kafka.Message{Value: wire.AppendBatch(nil, parts...)})
	}
	return out
}

func garbage(it item) []byte { return fmt.Appendf(nil, "no message %d", it.n) }
