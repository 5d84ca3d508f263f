package otlp

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
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

// appendStatus appends the google.rpc.Status that OTLP wants as the body of an
// HTTP error.
func appendStatus(b []byte, f *failure) []byte {
	b = protowire.AppendTag(b, 1, protowire.VarintType) // code
	b = protowire.AppendVarint(b, uint64(f.grpc))
	b = protowire.AppendTag(b, 2, protowire.BytesType) // message
	return protowire.AppendString(b, f.text)
}
