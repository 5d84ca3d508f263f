package extract

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Span is a view of one OTLP span. Its byte slices point into the request; its
// attributes are read when they are asked for.
type Span struct {
	Raw      []byte   // the encoded Span message
	Resource [][]byte // the encoded Resource messages; more than one are merged
	Scope    [][]byte // the encoded InstrumentationScope messages

	TraceID    []byte
	SpanID     []byte
	ParentID   []byte
	Name       []byte
	StartNanos uint64
	EndNanos   uint64
}

// Field numbers of opentelemetry/proto/collector/trace/v1, trace/v1 and
// common/v1.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScopes   = 2

	scopeSpansScope = 1
	scopeSpansSpans = 2

	resourceAttributes = 1

	spanTraceID    = 1
	spanSpanID     = 2
	spanParentID   = 4
	spanName       = 5
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9

	keyValueKey   = 1
	keyValueValue = 2

	anyString = 1
	anyBool   = 2
	anyInt    = 3
	anyDouble = 4
	anyArray  = 5
	anyKVList = 6
	anyBytes  = 7

	arrayValues = 1
)

// field is one field of a message: num where it is a varint or fixed64, b where
// it is length-delimited.
type field struct {
	number protowire.Number
	typ    protowire.Type
	num    uint64
	b      []byte
}

func next(b []byte) (f field, rest []byte, err error) {
	// Most fields are length-delimited, with a tag and a length of one byte.
	if len(b) > 1 && b[0] >= 1<<3 && b[0] < 0x80 && b[0]&7 == byte(protowire.BytesType) && int(b[1]) <= min(len(b)-2, 0x7f) {
		n := 2 + int(b[1])
		return field{number: protowire.Number(b[0] >> 3), typ: protowire.BytesType, b: b[2:n]}, b[n:], nil
	}
	number, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	f.number, f.typ = number, typ
	b = b[n:]
	switch typ {
	case protowire.VarintType:
		f.num, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.num, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		f.b, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, typ, b)
	}
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}

// children calls visit with each length-delimited field of that number.
func children(b []byte, number protowire.Number, visit func([]byte) error) error {
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		if f.number == number && f.typ == protowire.BytesType {
			if err := visit(f.b); err != nil {
				return err
			}
		}
		b = rest
	}
	return nil
}

// walk calls visit with each span of an ExportTraceServiceRequest. The Span is
// reused between calls. A span whose own message is broken is visited with that
// error; one in what surrounds the spans ends the walk.
func walk(request []byte, visit func(*Span, error) error) error {
	var s Span
	return children(request, requestResourceSpans, func(b []byte) error {
		s.Resource = nil // not reused: a Reject keeps it
		if err := children(b, resourceSpansResource, func(r []byte) error {
			s.Resource = append(s.Resource, r)
			return nil
		}); err != nil {
			return fmt.Errorf("resource spans: %w", err)
		}
		return children(b, resourceSpansScopes, func(b []byte) error { return walkScope(b, &s, visit) })
	})
}

func walkScope(b []byte, s *Span, visit func(*Span, error) error) error {
	s.Scope = nil
	if err := children(b, scopeSpansScope, func(scope []byte) error {
		s.Scope = append(s.Scope, scope)
		return nil
	}); err != nil {
		return fmt.Errorf("scope spans: %w", err)
	}
	return children(b, scopeSpansSpans, func(b []byte) error { return visit(s, s.read(b)) })
}

// read sets all of s but its resource and scope. As protobuf has it, a field of
// another wire type than it should have is one that nobody knows.
func (s *Span) read(b []byte) error {
	*s = Span{Raw: b, Resource: s.Resource, Scope: s.Scope}
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		switch f.typ {
		case protowire.BytesType:
			switch f.number {
			case spanTraceID:
				s.TraceID = f.b
			case spanSpanID:
				s.SpanID = f.b
			case spanParentID:
				s.ParentID = f.b
			case spanName:
				s.Name = f.b
			}
		case protowire.Fixed64Type:
			switch f.number {
			case spanStart:
				s.StartNanos = f.num
			case spanEnd:
				s.EndNanos = f.num
			}
		}
		b = rest
	}
	return nil
}

// Attributes gives a cursor over the span's attributes, in their order.
func (s *Span) Attributes() Attributes { return Attributes{s.Raw, spanAttributes} }

// Attribute is one attribute. Its key and value point into the request.
type Attribute struct {
	Key   []byte
	Value Value
	Size  int // encoded, bytes
}

// Attributes is a cursor over the attributes of a message.
type Attributes struct {
	rest   []byte
	number protowire.Number // of the message's field that holds them
}

// Next reads the next attribute into a. It gives false after the last one, and
// with the error where reading had to stop.
func (as *Attributes) Next(a *Attribute) (bool, error) {
	for len(as.rest) > 0 {
		f, rest, err := next(as.rest)
		if err != nil {
			return false, err
		}
		as.rest = rest
		if f.number == as.number && f.typ == protowire.BytesType {
			err := a.read(f.b)
			return err == nil, err
		}
	}
	return false, nil
}

func (a *Attribute) read(b []byte) error {
	*a = Attribute{Size: len(b)}
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		switch {
		case f.typ != protowire.BytesType:
		case f.number == keyValueKey:
			a.Key = f.b
		case f.number == keyValueValue:
			if err := a.Value.read(f.b); err != nil {
				return err
			}
		}
		b = rest
	}
	return nil
}
