// Package otlptest makes OTLP spans of parts for the tests of the whole program:
// what a coordinator sends, as bytes or as JSON.
package otlptest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// Span is a span of the part's identifiers and times, with no other attributes than
// those given.
func Span(p *schema.Part, name string, attributes ...*common.KeyValue) *trace.Span {
	s := &trace.Span{TraceId: p.Trace[:], SpanId: p.Span[:], Name: name, Kind: trace.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(p.StartNanos), EndTimeUnixNano: uint64(p.EndNanos), Attributes: attributes}
	if p.Parent != (schema.SpanID{}) {
		s.ParentSpanId = p.Parent[:]
	}
	return s
}

// Contract is the contract span of a part, or its leg of a replay.
func Contract(p *schema.Part) *trace.Span {
	s := Span(p, schema.SpanName)
	for _, a := range kvspan.Attributes(p) {
		s.Attributes = append(s.Attributes, &common.KeyValue{Key: string(a.Key), Value: anyOf(a.Value)})
	}
	return s
}

func anyOf(v attribute.Value) *common.AnyValue {
	switch v.Type() {
	case attribute.STRING:
		return Text(v.AsString())
	case attribute.INT64:
		return Integer(v.AsInt64())
	case attribute.FLOAT64:
		return Double(v.AsFloat64())
	case attribute.STRINGSLICE:
		return array(v.AsStringSlice(), Text)
	case attribute.INT64SLICE:
		return array(v.AsInt64Slice(), Integer)
	case attribute.FLOAT64SLICE:
		return array(v.AsFloat64Slice(), Double)
	}
	panic("no attribute of the contract is " + v.Type().String())
}

// Text is a string as the value of an attribute.
func Text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

// Integer is an int as the value of an attribute.
func Integer(n int64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}
}

// Double is a double as the value of an attribute.
func Double(f float64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: f}}
}

func array[T any](values []T, of func(T) *common.AnyValue) *common.AnyValue {
	a := &common.ArrayValue{}
	for _, v := range values {
		a.Values = append(a.Values, of(v))
	}
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: a}}
}

// JSON is protobuf's JSON with identifiers in hex digits, as OTLP has it.
func JSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write OTLP as JSON: %w", err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("write OTLP as JSON: %w", err)
	}
	hexIDs(tree)
	return json.Marshal(tree)
}

func hexIDs(tree any) {
	switch node := tree.(type) {
	case []any:
		for _, child := range node {
			hexIDs(child)
		}
	case map[string]any:
		for key, child := range node {
			id, ok := child.(string)
			if b, err := base64.StdEncoding.DecodeString(id); ok && err == nil && (key == "traceId" || key == "spanId" || key == "parentSpanId") {
				node[key] = hex.EncodeToString(b)
				continue
			}
			hexIDs(child)
		}
	}
}
