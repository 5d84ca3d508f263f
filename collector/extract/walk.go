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

	scopeName = 1

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

// cursor goes over the fields of a message. The field that it is at has num where
// it is a varint or fixed64, and b where it is length-delimited.
type cursor struct {
	rest   []byte
	number protowire.Number
	typ    protowire.Type
	num    uint64
	b      []byte
}

// next goes to the next field; there must be one: len(c.rest) > 0.
func (c *cursor) next() error {
	if c.short() {
		return nil
	}
	number, typ, n := protowire.ConsumeTag(c.rest)
	if n < 0 {
		return protowire.ParseError(n)
	}
	c.number, c.typ, c.num, c.b = number, typ, 0, nil
	b := c.rest[n:]
	switch typ {
	case protowire.VarintType:
		c.num, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		c.num, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		c.b, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, typ, b)
	}
	if n < 0 {
		return protowire.ParseError(n)
	}
	c.rest = b[n:]
	return nil
}

// short is next for a length-delimited field whose tag is one byte and whose
// length is one or two, which nearly all are. It is false for others.
func (c *cursor) short() bool {
	b := c.rest
	if len(b) < 3 || b[0]&0x87 != byte(protowire.BytesType) || b[0] < 1<<3 {
		return false
	}
	size, start := int(b[1]), 2
	if size >= 0x80 {
		if b[2] >= 0x80 || b[2] == 0 {
			return false
		}
		size, start = size&0x7f|int(b[2])<<7, 3
	}
	if size > len(b)-start {
		return false
	}
	c.number, c.typ = protowire.Number(b[0]>>3), protowire.BytesType
	c.b, c.rest = b[start:start+size], b[start+size:]
	return true
}

// children calls visit with each length-delimited field of that number.
func children(b []byte, number protowire.Number, visit func([]byte) error) error {
	for c := (cursor{rest: b}); len(c.rest) > 0; {
		if err := c.next(); err != nil {
			return err
		}
		if c.number == number && c.typ == protowire.BytesType {
			if err := visit(c.b); err != nil {
				return err
			}
		}
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
	for c := (cursor{rest: b}); len(c.rest) > 0; {
		if err := c.next(); err != nil {
			return err
		}
		switch c.typ {
		case protowire.BytesType:
			switch c.number {
			case spanTraceID:
				s.TraceID = c.b
			case spanSpanID:
				s.SpanID = c.b
			case spanParentID:
				s.ParentID = c.b
			case spanName:
				s.Name = c.b
			}
		case protowire.Fixed64Type:
			switch c.number {
			case spanStart:
				s.StartNanos = c.num
			case spanEnd:
				s.EndNanos = c.num
			}
		}
	}
	return nil
}

// scopeName is the name of the instrumentation scope.
func (s *Span) scopeName() (name []byte) {
	for _, scope := range s.Scope {
		// A scope that can not be read has the name that was read so far.
		_ = children(scope, scopeName, func(b []byte) error {
			name = b
			return nil
		})
	}
	return name
}

// Attributes gives a cursor over the span's attributes, in their order.
func (s *Span) Attributes() Attributes {
	return Attributes{cursor{rest: s.Raw}, spanAttributes}
}

// Attribute is one attribute. Its key and value point into the request.
type Attribute struct {
	Key   []byte
	Value Value
	Size  int // encoded, bytes
}

// Attributes is a cursor over the attributes of a message.
type Attributes struct {
	cursor
	field protowire.Number // of the message, that holds them
}

// Next reads the next attribute into a. It gives false after the last one, and
// with the error where reading had to stop.
func (as *Attributes) Next(a *Attribute) (bool, error) {
	for len(as.rest) > 0 {
		if err := as.next(); err != nil {
			return false, err
		}
		if as.number == as.field && as.typ == protowire.BytesType {
			err := a.read(as.b)
			return err == nil, err
		}
	}
	return false, nil
}

func (a *Attribute) read(b []byte) error {
	*a = Attribute{Size: len(b)}
	for c := (cursor{rest: b}); len(c.rest) > 0; {
		if err := c.next(); err != nil {
			return err
		}
		switch {
		case c.typ != protowire.BytesType:
		case c.number == keyValueKey:
			a.Key = c.b
		case c.number == keyValueValue:
			if err := a.Value.read(c.b); err != nil {
				return err
			}
		}
	}
	return nil
}
