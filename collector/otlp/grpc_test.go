package otlp

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func dial(t *testing.T, r *Receiver) *grpc.ClientConn {
	c, err := grpc.NewClient(r.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// bytesCodec sends bytes that are no message.
type bytesCodec struct{ encoding.CodecV2 }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func export(t *testing.T, c *grpc.ClientConn, body []byte, options ...grpc.CallOption) (*collectorpb.ExportTraceServiceResponse, error) {
	var out collectorpb.ExportTraceServiceResponse
	options = append(options, grpc.ForceCodecV2(bytesCodec{encoding.GetCodecV2("proto")}))
	err := c.Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", body, &out, options...)
	return &out, err
}

func TestGRPC(t *testing.T) {
	vllm := captured(t, "vllm_spans_run1_grpc_15.pb")
	for _, c := range []struct {
		name  string
		body  []byte
		gzip  bool
		code  codes.Code
		want  string
		parts int
	}{
		{"spans", vllm, false, codes.OK, "", 13},
		{"gzip", vllm, true, codes.OK, "", 13},
		{"empty", nil, false, codes.OK, "", 0},
		{"no protobuf", []byte("hello"), false, codes.InvalidArgument, "read OTLP trace request", 0},
		{"cut", vllm[:len(vllm)-1], false, codes.InvalidArgument, "read OTLP trace request", 0},
		{"large", make([]byte, 1<<20+1), false, codes.ResourceExhausted, "collect.max_request_bytes", 0},
		{"bomb", make([]byte, 2<<20), true, codes.ResourceExhausted, "collect.max_request_bytes", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p fake
			cfg := local()
			cfg.MaxRequestBytes = 1 << 20
			r := start(t, cfg, &p)
			var options []grpc.CallOption
			if c.gzip {
				options = append(options, grpc.UseCompressor("gzip"))
			}
			out, err := export(t, dial(t, r), c.body, options...)
			require.Equal(t, c.code, status.Code(err), "%v", err)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
			}
			require.Nil(t, out.PartialSuccess, "not set where all is accepted")
			_, parts, _ := p.seen()
			require.Equal(t, c.parts, parts)
		})
	}
}

func TestGRPCSaysWhenToRetry(t *testing.T) {
	cfg := local()
	cfg.RetryAfter = 7 * time.Second
	r := start(t, cfg, &fake{errs: []error{away, denied}})
	c := dial(t, r)
	_, err := export(t, c, nil)
	require.Equal(t, codes.Unavailable, status.Code(err))
	details := status.Convert(err).Details()
	require.Len(t, details, 1)
	require.Equal(t, 7*time.Second, details[0].(*errdetails.RetryInfo).RetryDelay.AsDuration())
	_, err = export(t, c, nil)
	require.Equal(t, codes.Internal, status.Code(err))
	require.Empty(t, status.Convert(err).Details())
}

func TestGRPCOtherServices(t *testing.T) {
	r := start(t, local(), new(fake))
	c := dial(t, r)
	_, err := metricspb.NewMetricsServiceClient(c).Export(t.Context(), &metricspb.ExportMetricsServiceRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	require.ErrorContains(t, err, "takes traces only")
	_, err = logspb.NewLogsServiceClient(c).Export(t.Context(), &logspb.ExportLogsServiceRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	err = c.Invoke(t.Context(), "/other.Service/Do", &collectorpb.ExportTraceServiceRequest{}, new(collectorpb.ExportTraceServiceResponse))
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

// A stream that is opened and never sends its message is ended.
func TestGRPCSlowSender(t *testing.T) {
	t.Parallel()
	cfg := local()
	cfg.ReadTimeout = time.Second
	r := start(t, cfg, new(fake))
	s, err := dial(t, r).NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/opentelemetry.proto.collector.trace.v1.TraceService/Export")
	require.NoError(t, err)
	err = s.RecvMsg(new(collectorpb.ExportTraceServiceResponse))
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.ErrorContains(t, err, "collect.read_timeout")
}

func TestGRPCSenderGoesAway(t *testing.T) {
	p := fake{wait: make(chan struct{})}
	r := start(t, local(), &p)
	c := dial(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- c.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", &collectorpb.ExportTraceServiceRequest{}, new(collectorpb.ExportTraceServiceResponse))
	}()
	waitForCalls(t, &p, 1)
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-done))
	require.Eventually(t, func() bool { return r.budget.used.Load() == 0 }, patience, time.Millisecond)
}

func TestGRPCPartialSuccess(t *testing.T) {
	r := start(t, local(), new(fake))
	body, f := fromJSON([]byte(jsonContract("-1")))
	require.Nil(t, f)
	out, err := export(t, dial(t, r), body)
	require.NoError(t, err)
	want := &collectorpb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "1 spans refused: attribute kvreuse.ttft: -1, at least 0"}
	require.True(t, proto.Equal(want, out.PartialSuccess), out)
}

// half begins an export whose message is announced with length bytes, and sends
// body of it. It ends with the test.
func half(t *testing.T, r *Receiver, length int, body []byte) *io.PipeWriter {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	read, write := io.Pipe()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.GRPCAddr()+methodExport, read)
	require.NoError(t, err)
	q.Header.Set("Content-Type", typeGRPC)
	var under sync.WaitGroup
	under.Go(func() {
		if a, err := transport.RoundTrip(q); err == nil {
			a.Body.Close()
		}
	})
	t.Cleanup(func() { write.Close(); under.Wait(); transport.CloseIdleConnections() })
	_, err = write.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(length)), body...))
	require.NoError(t, err)
	return write
}

// What senders announce and do not send takes no room from others.
func TestGRPCAnnouncedTakesNoRoom(t *testing.T) {
	cfg := local()
	cfg.MaxRequestBytes, cfg.MaxInFlightBytes = 16<<20, 16<<20
	r := start(t, cfg, new(fake))
	for range 8 {
		half(t, r, 16<<20, []byte("begun"))
	}
	require.Eventually(t, func() bool { return r.budget.used.Load() >= 8*withParts*tiny }, patience, time.Millisecond)
	_, err := export(t, dial(t, r), make([]byte, 0))
	require.NoError(t, err)
	require.LessOrEqual(t, r.budget.used.Load(), int64(4<<20))
}

// What has come of large messages is in memory only where it is reserved.
func TestGRPCMemoryIsBoundedWhileItComes(t *testing.T) {
	cfg := local()
	cfg.MaxRequestBytes, cfg.MaxInFlightBytes, cfg.Wait = 8<<20, 16<<20, 0
	r := start(t, cfg, new(fake))
	first := half(t, r, 8<<20, make([]byte, 2<<20))
	require.Eventually(t, func() bool { return r.budget.used.Load() == 8<<20 }, patience, time.Millisecond)
	_, err := export(t, dial(t, r), make([]byte, 2<<20))
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	_, err = export(t, dial(t, r), nil)
	require.NoError(t, err, "small ones have room of their own")
	first.Close()
}

func TestGRPCSecondMessage(t *testing.T) {
	r := start(t, local(), new(fake))
	s, err := dial(t, r).NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, methodExport)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, s.SendMsg(new(collectorpb.ExportTraceServiceRequest)))
	}
	require.NoError(t, s.CloseSend())
	err = s.RecvMsg(new(collectorpb.ExportTraceServiceResponse))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "a second message follows")
}

func TestPercentEncoded(t *testing.T) {
	require.Equal(t, "a %25 \"b\" %C3%A9%0A", percentEncoded("a % \"b\" \u00e9\n"))
}
