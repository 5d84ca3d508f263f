package otlp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // registers the compressor that OTLP requires
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	maxStreams    = 128 // requests at a time on one connection
	maxHeaderSize = 16 << 10
)

// raw is a message that stays encoded.
type raw struct {
	in  mem.Buffer
	out []byte
}

// rawCodec leaves messages encoded: extract walks the bytes.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*raw)
	if !ok {
		return nil, fmt.Errorf("encode gRPC message: %T is not *raw", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.out)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*raw)
	if !ok {
		return fmt.Errorf("decode gRPC message: %T is not *raw", v)
	}
	m.in = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

// traceService is opentelemetry.proto.collector.trace.v1.TraceService. Its one
// method is unary, and is registered as a stream so that memory is reserved
// before the message is read.
var traceService = grpc.ServiceDesc{
	ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService",
	HandlerType: (*any)(nil),
	Streams:     []grpc.StreamDesc{{StreamName: "Export", Handler: func(srv any, s grpc.ServerStream) error { return srv.(*Receiver).exportGRPC(s) }}},
	Metadata:    "opentelemetry/proto/collector/trace/v1/trace_service.proto",
}

func (r *Receiver) grpcServer() *grpc.Server {
	s := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(r.cfg.MaxRequestBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderSize),
		grpc.ConnectionTimeout(r.cfg.ReadTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: r.cfg.IdleTimeout, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.UnknownServiceHandler(unknownService),
	)
	s.RegisterService(&traceService, r)
	return s
}

// unknownService answers what is not traces.
func unknownService(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	if strings.HasPrefix(method, "/opentelemetry.proto.collector.") {
		return status.Errorf(codes.Unimplemented, "kvwhatif takes traces only, not %s: send those elsewhere", method)
	}
	return status.Errorf(codes.Unimplemented, "unknown method %s", method)
}

func (r *Receiver) exportGRPC(s grpc.ServerStream) error {
	h := hold{budget: r.budget}
	defer h.release()
	p, err := r.receiveGRPC(s, &h)
	r.answered(overGRPC, status.Code(err).String())
	if err != nil {
		return err
	}
	return s.SendMsg(&raw{out: appendResponse(nil, p)})
}

func (r *Receiver) receiveGRPC(s grpc.ServerStream, h *hold) (partial, error) {
	ctx := s.Context()
	if f := h.reserve(ctx, firstReserve); f != nil {
		return partial{}, r.status(f)
	}
	m, err := r.receive(s)
	if err != nil {
		return partial{}, err
	}
	defer m.Free()
	if f := h.reserve(ctx, withParts*int64(m.Len())); f != nil {
		return partial{}, r.status(f)
	}
	p, f := r.export(ctx, m.ReadOnlyData())
	if f != nil {
		return partial{}, r.status(f)
	}
	return p, nil
}

// receive reads the message, and gives up on a sender that takes too long: when
// the handler returns, gRPC ends the stream and with it the reading.
func (r *Receiver) receive(s grpc.ServerStream) (mem.Buffer, error) {
	type received struct {
		buffer mem.Buffer
		err    error
	}
	done := make(chan received, 1)
	go func() {
		var m raw
		err := s.RecvMsg(&m)
		done <- received{m.in, err}
	}()
	limit, cancel := context.WithTimeout(s.Context(), r.cfg.ReadTimeout)
	defer cancel()
	select {
	case m := <-done:
		return m.buffer, m.err
	case <-limit.Done():
		if err := s.Context().Err(); err != nil {
			return nil, status.FromContextError(err).Err()
		}
		return nil, r.status(failed(kindSlow, "the request took longer to arrive than %v (collect.read_timeout)", r.cfg.ReadTimeout))
	}
}

// status is f as gRPC says it, with the delay where the sender should wait.
func (r *Receiver) status(f *failure) error {
	s := status.New(f.grpc, f.text)
	if f.retry {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.cfg.RetryAfter)}); err == nil {
			s = detailed
		}
	}
	return s.Err()
}
