package otlp

import (
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// Bounds on JSON, for the library that reads it has none: it recurses, and a
// request is large enough to exhaust the stack, which ends the process; and it
// makes some 300 bytes of each empty object.
const (
	maxDepth       = 200  // a span with arrays needs 13
	bytesPerObject = 12   // at least, on average: {"intValue":1} has 14
	fewObjects     = 1024 // never too many
	// jsonFactor is how much memory a request takes for each of its bytes, at
	// most: 300 / bytesPerObject.
	jsonFactor = 25
)

// fromJSON turns OTLP/JSON into protobuf, whose walk is then the only one.
func fromJSON(body []byte) ([]byte, *failure) {
	depth, objects := shape(body)
	if depth > maxDepth {
		return nil, failed(kindInvalid, "read OTLP trace request as JSON: it is nested more than %d deep", maxDepth)
	}
	if objects > fewObjects+len(body)/bytesPerObject {
		return nil, failed(kindInvalid, "read OTLP trace request as JSON: %d objects in %d bytes are mostly empty", objects, len(body))
	}
	request := ptraceotlp.NewExportRequest()
	if err := request.UnmarshalJSON(body); err != nil {
		return nil, failed(kindInvalid, "read OTLP trace request as JSON: %v", err)
	}
	b, err := request.MarshalProto()
	if err != nil {
		return nil, failed(kindInvalid, "turn OTLP trace request from JSON to protobuf: %v", err)
	}
	return b, nil
}

// shape gives how deep objects and arrays are inside each other, and how many
// there are.
func shape(body []byte) (deepest, objects int) {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			objects++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest, objects
}
