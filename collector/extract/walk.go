package extract

import (
	"encoding/binary"
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

	resource   int    // counts the resources of a request, from 1
	attributes []byte // the message from its first attribute on
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

// walker goes over the spans of a request. It can be used again.
type walker struct {
	Span
	messages [][]byte // those of Span.Resource and Span.Scope
}

// keep adds the messages of that number to those that are kept, which a Reject
// may hold on to, and gives them.
func (w *walker) keep(b []byte, number protowire.Number) ([][]byte, error) {
	from := len(w.messages)
	err := children(b, number, func(m []byte) error {
		w.messages = append(w.messages, m)
		return nil
	})
	return w.messages[from:len(w.messages):len(w.messages)], err
}

// walk calls visit with each span of an ExportTraceServiceRequest. The Span is
// reused between calls. A span whose own message is broken is visited with that
// error; one in what surrounds the spans ends the walk.
func (w *walker) walk(request []byte, visit func(*Span, error) error) error {
	w.Span, w.messages = Span{}, w.messages[:0]
	return children(request, requestResourceSpans, func(b []byte) (err error) {
		w.resource++
		if w.Resource, err = w.keep(b, resourceSpansResource); err != nil {
			return fmt.Errorf("resource spans: %w", err)
		}
		return children(b, resourceSpansScopes, func(b []byte) error { return w.scope(b, visit) })
	})
}

func (w *walker) scope(b []byte, visit func(*Span, error) error) (err error) {
	if w.Scope, err = w.keep(b, scopeSpansScope); err != nil {
		return fmt.Errorf("scope spans: %w", err)
	}
	return children(b, scopeSpansSpans, func(b []byte) error { return visit(&w.Span, w.read(b)) })
}

// read sets all of s but its resource and scope.
func (s *Span) read(b []byte) error {
	*s = Span{Raw: b, Resource: s.Resource, Scope: s.Scope, resource: s.resource}
	for len(b) > 0 {
		start, end, ok := length(b)
		switch {
		case ok && b[0] == tagAttribute:
			if s.attributes == nil {
				s.attributes = b
			}
		case ok && b[0]&0x87 == byte(protowire.BytesType) && b[0] >= 1<<3:
			s.text(protowire.Number(b[0]>>3), b[start:end])
		case b[0]&0x87 == byte(protowire.Fixed64Type) && b[0] >= 1<<3 && len(b) > 8:
			s.time(protowire.Number(b[0]>>3), binary.LittleEndian.Uint64(b[1:]))
			end = 9
		default:
			c := protowalk.Over(b)
			if !c.Next() {
				return c.Err
			}
			s.unusual(&c.Field, b)
			end = len(b) - len(c.Rest)
		}
		b = b[end:]
	}
	return nil
}

func (s *Span) text(number protowire.Number, b []byte) {
	switch number {
	case spanTraceID:
		s.TraceID = b
	case spanSpanID:
		s.SpanID = b
	case spanParentID:
		s.ParentID = b
	case spanName:
		s.Name = b
	}
}

func (s *Span) time(number protowire.Number, nanos uint64) {
	switch number {
	case spanStart:
		s.StartNanos = nanos
	case spanEnd:
		s.EndNanos = nanos
	}
}

// unusual reads a field whose tag or length is longer than most, and which
// begins at b. As protobuf has it, a field of another wire type than it should
// have is one that nobody knows.
func (s *Span) unusual(f *protowalk.Field, b []byte) {
	switch {
	case f.Type == protowire.BytesType && f.Number == spanAttributes && s.attributes == nil:
		s.attributes = b
	case f.Type == protowire.BytesType:
		s.text(f.Number, f.Bytes)
	case f.Type == protowire.Fixed64Type:
		s.time(f.Number, f.Num)
	}
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
func (s *Span) Attributes() Attributes { return Attributes{s.attributes, tagAttribute} }

// Attribute is one attribute. Its key and value point into the request.
type Attribute struct {
	Key   []byte
	Value Value
	Size  int // encoded, bytes
}

// Attributes is a cursor over the attributes of a message.
type Attributes struct {
	rest []byte
	tag  byte // of the field that holds them
}

// Next reads the next attribute into a. It gives false after the last one, and
// with the error where reading had to stop.
func (as *Attributes) Next(a *Attribute) (bool, error) {
	body, rest, err := nextField(as.rest, as.tag)
	if body == nil {
		return false, err
	}
	as.rest = rest
	err = a.read(body)
	return err == nil, err
}

// nextField finds the next length-delimited field with that tag, a byte. body is
// nil where there is none.
func nextField(b []byte, tag byte) (body, rest []byte, err error) {
	for len(b) > 0 {
		if start, end, ok := length(b); ok && b[0] == tag {
			return b[start:end], b[end:], nil
		}
		c := protowalk.Over(b)
		if !c.Next() {
			return nil, nil, c.Err
		}
		b = c.Rest
		if c.Type == protowire.BytesType && c.Number == protowire.Number(tag>>3) {
			return c.Bytes, b, nil
		}
	}
	return nil, nil, nil
}

func (a *Attribute) read(b []byte) error {
	a.Size = len(b)
	a.Key, a.Value = nil, Value{}
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
