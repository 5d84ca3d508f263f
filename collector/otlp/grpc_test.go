package otlp

import (
	"context"
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
		{"large", make([]byte, 1<<20+1), false, codes.ResourceExhausted, "larger than max", 0},
		{"bomb", make([]byte, 20<<20), true, codes.ResourceExhausted, "larger than max", 0},
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
	require.Eventually(t, func() bool { return r.budget.used.Load() == 0 }, 10*time.Second, time.Millisecond)
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
