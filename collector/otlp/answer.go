package otlp

import (
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// appendResponse appends an ExportTraceServiceResponse. It is empty where all
// spans were accepted.
func appendResponse(b []byte, p partial) []byte {
	if p.rejected == 0 {
		return b
	}
	inner := protowire.AppendTag(nil, 1, protowire.VarintType) // rejected_spans
	inner = protowire.AppendVarint(inner, uint64(p.rejected))
	inner = protowire.AppendTag(inner, 2, protowire.BytesType) // error_message
	inner = protowire.AppendString(inner, p.why)
	return protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), inner) // partial_success
}

// jsonResponse is the same for OTLP/JSON, which writes 64-bit ints as strings.
func jsonResponse(p partial) any {
	if p.rejected == 0 {
		return struct{}{}
	}
	return map[string]any{"partialSuccess": map[string]string{"rejectedSpans": strconv.Itoa(p.rejected), "errorMessage": p.why}}
}

// status is the google.rpc.Status of a failure: over HTTP the body, over gRPC what
// its headers carry. It says what is wrong with a request, or when to send it again.
func (f *failure) status(retryAfter time.Duration) *status.Status {
	s := status.New(f.grpc, f.text)
	var detail protoadapt.MessageV1
	switch {
	case f.retry:
		detail = &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}
	case f.kind == kindInvalid:
		detail = &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Description: f.text}}}
	default:
		return s
	}
	detailed, err := s.WithDetails(detail)
	if err != nil {
		return s
	}
	return detailed
}
