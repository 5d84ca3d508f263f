package app

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// LetterContent is all of one dead letter.
type LetterContent struct {
	*Letter
	Content  any    `json:"content,omitempty"`       // the span as OTLP/JSON, or the part or parts
	Problem  string `json:"content_error,omitempty"` // why Content is missing, or not all
	Advice   string `json:"advice"`
	RawBytes []byte `json:"raw"` // as kept; base64 in JSON
}

// ShowLetter gives all of one dead letter.
func ShowLetter(ctx context.Context, s *Settings, id string) (*LetterContent, error) {
	cluster, err := deadLetters(s)
	if err != nil {
		return nil, err
	}
	x, err := readLetters(ctx, cluster)
	if err != nil {
		return nil, err
	}
	found, err := x.selected(&LetterFilter{IDs: []string{id}, Partition: -1, All: true})
	if err != nil {
		return nil, err
	}
	out := &LetterContent{Letter: found[0], Advice: adviceFor(found[0])}
	err = fetchLetters(ctx, cluster, found[:1], func(_ *Letter, l *wire.DeadLetter) error {
		out.RawBytes = l.Bytes
		out.Content, err = contentOf(l)
		if err != nil {
			out.Problem = err.Error()
		}
		return nil
	})
	return out, err
}

// errAllFound ends a scan early.
var errAllFound = errors.New("all found")

// fetchLetters reads the letters given with their bytes, in the order of the topic.
func fetchLetters(ctx context.Context, cluster kafka.Cluster, letters []*Letter, visit func(*Letter, *wire.DeadLetter) error) error {
	at := make(map[Place]*Letter, len(letters))
	for _, l := range letters {
		at[l.Letter] = l
	}
	err := kafka.Scan(ctx, cluster, schema.TopicDead, func(m kafka.Message) error {
		place := Place{m.Topic, int64(m.Partition), m.Offset}
		letter, ok := at[place]
		if !ok {
			return nil
		}
		delete(at, place)
		var l wire.DeadLetter
		if err := wire.DecodeDeadLetter(m.Value, &l); err != nil {
			return fmt.Errorf("dead letter %s: %w", letter.ID, err)
		}
		if err := visit(letter, &l); err != nil || len(at) > 0 {
			return err
		}
		return errAllFound
	})
	switch {
	case errors.Is(err, errAllFound):
		return nil
	case err != nil:
		return err
	case len(at) > 0:
		return fmt.Errorf("retention took %d dead letters while they were read", len(at))
	}
	return nil
}

func adviceFor(l *Letter) string {
	switch {
	case l.State == LetterSent:
		return "it was retried and went through; nothing is left to do"
	case l.State == LetterCut:
		return fmt.Sprintf("only %d of its %d bytes were kept: it can not be retried. Mend the sender; if it still has the span, it can send it again", l.Kept, l.Length)
	case l.State == LetterConflict:
		return "another content under the same span id came first, and is in the tables; retrying would mix the two. See that the sender makes a span id once only"
	case l.Code == "version":
		return "a newer kvwhatif wrote it, or another program writes to the topic. Update, then `kvwhatif dlq retry " + l.ID + "`"
	}
	return "mend what the reason says (the sender, or this program by an update), then `kvwhatif dlq retry " + l.ID + "`"
}

// contentOf decodes a record as far as it can.
func contentOf(l *wire.DeadLetter) (any, error) {
	if l.Source == wire.SourceOTLP {
		return otlpContent(l.Bytes)
	}
	var part schema.Part
	if l.Index >= 0 && codeOf(l) != "framing" {
		if err := new(wire.Decoder).Part(l.Bytes, &part); err != nil {
			return readable(reflect.ValueOf(part)), fmt.Errorf("the part can be read only so far: %w", err)
		}
		return readable(reflect.ValueOf(part)), nil
	}
	var parts []any
	for frame, err := range wire.Frames(wholeMessage(l)) {
		if err == nil {
			err = new(wire.Decoder).Part(frame, &part)
		}
		if err != nil {
			return parts, fmt.Errorf("after %d parts: %w", len(parts), err)
		}
		parts = append(parts, readable(reflect.ValueOf(part)))
	}
	return parts, nil
}

// wholeMessage is the message that a letter of more than one part holds: all of
// it, or what came after the place where reading stopped.
func wholeMessage(l *wire.DeadLetter) []byte {
	if l.Index < 0 {
		return l.Bytes
	}
	return append(wire.AppendBatch(nil), l.Bytes...)
}

// otlpContent gives a request as OTLP/JSON, whose identifiers are hex.
func otlpContent(request []byte) (any, error) {
	var m collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(request, &m); err != nil {
		return nil, fmt.Errorf("the bytes are no OTLP request: %w", err)
	}
	raw, err := protojson.Marshal(&m)
	if err != nil {
		return nil, fmt.Errorf("the request has no JSON form: %w", err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	hexIDs(out)
	return out, nil
}

func hexIDs(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			hexIDs(e)
		}
	case map[string]any:
		for key, e := range v {
			id, ok := e.(string)
			if ok && (key == "traceId" || key == "spanId" || key == "parentSpanId") {
				if b, err := base64.StdEncoding.DecodeString(id); err == nil {
					v[key] = hex.EncodeToString(b)
				}
				continue
			}
			hexIDs(e)
		}
	}
}

// readable gives a value of schema as JSON can show it: identifiers in hex, enums
// by name, without what is missing or empty. NaN, which is "not applicable", is
// null.
func readable(v reflect.Value) any {
	if s, ok := v.Interface().(fmt.Stringer); ok {
		return s.String()
	}
	switch v.Kind() {
	case reflect.Float64, reflect.Float32:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = readable(v.Index(i))
		}
		return out
	case reflect.Struct:
		return readableStruct(v)
	}
	return v.Interface()
}

func readableStruct(v reflect.Value) any {
	if ok := v.FieldByName("OK"); ok.IsValid() {
		return readable(v.FieldByName("V")) // an Opt that is there, for the others are left out
	}
	out := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if f := v.Field(i); field.IsExported() && !f.IsZero() {
			out[field.Name] = readable(f)
		}
	}
	return out
}

// Text is a letter for people.
func (c *LetterContent) Text() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%-10s %v\n", name, value) }
	line("letter", c.SHA256)
	line("state", c.State)
	line("refused", c.At.Format("2006-01-02 15:04:05.000 UTC"))
	line("reason", c.Reason)
	line("code", c.Code)
	if c.Adapter != "" {
		line("adapter", c.Adapter)
	}
	line("from", c.origin())
	line("kept in", c.Letter.Letter)
	line("size", fmt.Sprintf("%d bytes, %d kept", c.Length, c.Kept))
	line("copies", c.Copies)
	line("retries", c.Attempts)
	line("next", c.Advice)
	if c.Problem != "" {
		line("content", c.Problem)
	}
	if c.Content != nil {
		raw, err := json.MarshalIndent(c.Content, "", "  ")
		if err != nil {
			raw = []byte(err.Error())
		}
		fmt.Fprintf(&b, "\n%s\n", raw)
	}
	if c.Content == nil || c.Problem != "" {
		fmt.Fprintf(&b, "\n%s", hex.Dump(c.RawBytes[:min(len(c.RawBytes), 1024)]))
	}
	return b.String()
}

// origin is where the record was refused.
func (l *Letter) origin() string {
	switch {
	case l.From == nil:
		return fmt.Sprintf("the door (OTLP), span %d of its request", l.Index)
	case l.Index < 0:
		return fmt.Sprintf("%s, the whole message", l.From)
	}
	return fmt.Sprintf("%s, part %d", l.From, l.Index)
}
