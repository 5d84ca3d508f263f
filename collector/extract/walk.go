package extract

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema/protowalk"
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

// children calls visit with each length-delimited field of that number.
func children(b []byte, number protowire.Number, visit func([]byte) error) error {
	c := protowalk.Over(b)
	for c.Next() {
		if c.Number == number && c.Type == protowire.BytesType {
			if err := visit(c.Bytes); err != nil {
				return err
			}
		}
	}
	return c.Err
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
	c := protowalk.Over(b)
	for c.Next() {
		switch c.Type {
		case protowire.BytesType:
			switch c.Number {
			case spanTraceID:
				s.TraceID = c.Bytes
			case spanSpanID:
				s.SpanID = c.Bytes
			case spanParentID:
				s.ParentID = c.Bytes
			case spanName:
				s.Name = c.Bytes
			}
		case protowire.Fixed64Type:
			switch c.Number {
			case spanStart:
				s.StartNanos = c.Num
			case spanEnd:
				s.EndNanos = c.Num
			}
		}
	}
	return c.Err
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
	return Attributes{protowalk.Over(s.Raw), spanAttributes}
}

// Attribute is one attribute. Its key and value point into the request.
type Attribute struct {
	Key   []byte
	Value Value
	Size  int // encoded, bytes
}

// Attributes is a cursor over the attributes of a message.
type Attributes struct {
	at    protowalk.Cursor
	field protowire.Number // of the message, that holds them
}

// Next reads the next attribute into a. It gives false after the last one, and
// with the error where reading had to stop.
func (as *Attributes) Next(a *Attribute) (bool, error) {
	for as.at.Next() {
		if as.at.Number == as.field && as.at.Type == protowire.BytesType {
			err := a.read(as.at.Bytes)
			return err == nil, err
		}
	}
	return false, as.at.Err
}

func (a *Attribute) read(b []byte) error {
	*a = Attribute{Size: len(b)}
	c := protowalk.Over(b)
	for c.Next() {
		switch {
		case c.Type != protowire.BytesType:
		case c.Number == keyValueKey:
			a.Key = c.Bytes
		case c.Number == keyValueValue:
			if err := a.Value.read(c.Bytes); err != nil {
				return err
			}
		}
	}
	return c.Err
}
