package crash

import (
	"context"
	"fmt"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

func keyOf(trace string, span uint64) (k spanKey) {
	copy(k.trace[:], trace)
	for i := range k.span {
		k.span[i] = byte(span >> (56 - 8*i))
	}
	return k
}

// readTopic calls take for each message that a topic has now.
func readTopic(ctx context.Context, addr, topic string, take func(kafka.Message)) error {
	cluster := kafka.Brokers(addr)
	first, ends, err := kafka.Offsets(ctx, cluster, topic)
	if err != nil {
		return err
	}
	for partition, end := range ends {
		if end == first[partition] {
			continue
		}
		r, err := kafka.NewPartitionReader(cluster, topic, partition, first[partition])
		if err != nil {
			return err
		}
		for at := first[partition]; at < end; {
			m, err := r.Read(ctx)
			if err != nil {
				r.Close()
				return fmt.Errorf("read %s/%d at %d: %w", topic, partition, at, err)
			}
			take(m)
			at = m.Offset + 1
		}
		r.Close()
	}
	return nil
}

// partsIn counts the parts of a message that can be read.
func partsIn(value []byte) (n int) {
	for _, err := range wire.Frames(value) {
		if err == nil {
			n++
		}
	}
	return n
}

// checkDead compares the dead letters with the poison that was sent. One that was
// sent or read twice may lie there twice: what it is about is counted once.
func (r *recount) checkDead(ctx context.Context, addr string, f findings) error {
	seen := map[string]bool{}
	err := readTopic(ctx, addr, schema.TopicDead, func(m kafka.Message) {
		var l wire.DeadLetter
		if err := wire.DecodeDeadLetter(m.Value, &l); err != nil {
			f.note(wrongDead, "one that can not be read: %v", err)
			return
		}
		about := subject(&l)
		if seen[about] = true; !r.poison[about] || l.Reason == "" {
			f.note(wrongDead, "%q, for %q", about, l.Reason)
		}
	})
	for about := range r.poison {
		if !seen[about] {
			f.note(wrongDead, "none about %q", about)
		}
	}
	return err
}

// subject is what a dead letter is about: a request id, or a message.
func subject(l *wire.DeadLetter) string {
	if l.Source == wire.SourceOTLP {
		var r coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(l.Bytes, &r); err != nil {
			return err.Error()
		}
		for _, a := range r.ResourceSpans[0].ScopeSpans[0].Spans[0].Attributes {
			if a.Key == schema.AttrRequestID {
				return a.Value.GetStringValue()
			}
		}
	}
	var p schema.Part
	if l.Index >= 0 && wire.DecodePart(l.Bytes, &p) == nil && p.RequestID != "" {
		return p.RequestID
	}
	return string(l.Bytes)
}
