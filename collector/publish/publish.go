// Package publish sends what extract made of a request to Kafka: the parts to one
// topic, the spans that were refused to another, both before the request is
// accepted.
package publish

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// maxChunk bounds the dead letters that are held at once, in bytes: each repeats
// the resource of its span, so all of a request can be much more than it.
const maxChunk = 4 << 20

// lendable is how long a call to Kafka may have taken for its memory to be used
// again: much less than the timeout of one attempt, for an attempt that was given
// up may still be reading what a later one has sent well.
const lendable = time.Second

// Producer is what is needed of Kafka; *kafka.Writer is one. It returns nil only
// once all in-sync replicas have every message, and does not read them after that.
type Producer interface {
	Produce(ctx context.Context, topic string, messages ...kafka.Message) error
}

// Publisher sends parts and dead letters. It is safe for concurrent use.
type Publisher struct {
	producer Producer
	now      func() time.Time
	packers  sync.Pool // of *packer that nobody uses
}

// New makes a Publisher that sends by p.
func New(p Producer) *Publisher { return &Publisher{producer: p, now: time.Now} }

// Publish sends all of r, and returns nil once Kafka has acknowledged it. Parts
// that fit no message are added to r.Rejected. After an error some of it may be
// in Kafka, and the whole request can be sent again; kafka.IsRetryable says
// whether that can help.
func (p *Publisher) Publish(ctx context.Context, r *extract.Result) error {
	if err := p.parts(ctx, r); err != nil {
		return fmt.Errorf("send parts to topic %s: %w", schema.TopicParts, err)
	}
	return p.bury(ctx, r.Rejected)
}

// parts sends the parts, in memory that was used before where there is some.
func (p *Publisher) parts(ctx context.Context, r *extract.Result) error {
	k, ok := p.packers.Get().(*packer)
	if !ok {
		k = new(packer)
	}
	k.pack(r)
	if len(k.messages) > 0 {
		began := time.Now()
		if err := p.producer.Produce(ctx, schema.TopicParts, k.messages...); err != nil {
			return err
		}
		if time.Since(began) > lendable {
			return nil
		}
	}
	if k.giveBack() {
		p.packers.Put(k)
	}
	return nil
}

// bury sends the refused spans to the dead-letter topic, a bounded number at a
// time.
func (p *Publisher) bury(ctx context.Context, rejected []extract.Reject) error {
	at := p.now().UnixNano()
	for len(rejected) > 0 {
		var messages []kafka.Message
		for size := 0; len(rejected) > 0 && size < maxChunk; rejected = rejected[1:] {
			value := wire.AppendDeadLetter(nil, letter(&rejected[0], at))
			messages, size = append(messages, kafka.Message{Value: value}), size+len(value)
		}
		if err := p.producer.Produce(ctx, schema.TopicDead, messages...); err != nil {
			return fmt.Errorf("send dead letters to topic %s: %w", schema.TopicDead, err)
		}
	}
	return nil
}

func letter(r *extract.Reject, at int64) *wire.DeadLetter {
	l := &wire.DeadLetter{Code: string(r.Code), Reason: r.Reason, Source: wire.SourceOTLP, Adapter: r.Adapter, Index: int64(r.Index), AtNanos: at}
	l.SetRecord(r.Record())
	return l
}
