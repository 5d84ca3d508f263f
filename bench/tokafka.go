package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/bench/peer"
	"github.com/kvwhatif/kvwhatif/bench/rig"
)

// usualPartitions of a topic, where that is not what is varied.
const usualPartitions = 4

// drain is how long after the last answer a target may work on what it has
// accepted, before its CPU time is read.
const drain = time.Second

// contender is a target with its senders, and what its rounds came to.
type contender struct {
	name    string
	target  *rig.Target
	senders *rig.Senders
	sent    int64     // spans, all rounds and before
	perCPU  []float64 // spans a CPU-second, by round
	rates   []float64 // spans a second
}

// round sends for a while, and notes what that took.
func (c *contender) round(ctx context.Context, d time.Duration) error {
	before, err := rig.CPU(c.target.Pid())
	if err != nil {
		return err
	}
	sent, err := c.senders.For(ctx, d)
	if err != nil {
		return fmt.Errorf("%s: %w (it says: %s)", c.name, err, c.target.Said())
	}
	c.sent += sent.Spans
	pause(ctx, drain)
	after, err := rig.CPU(c.target.Pid())
	if err != nil {
		return err
	}
	c.perCPU = append(c.perCPU, float64(sent.Spans)/(after-before).Seconds())
	c.rates = append(c.rates, sent.Rate())
	return nil
}

func (c *contender) stop() {
	if c.senders != nil {
		c.senders.Close()
	}
	c.target.Stop()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// contenders are kvwhatif, and the peer where there is one, on one broker.
func (b *bench) contenders(ctx context.Context, broker *rig.Broker, s corpus.Shape) (list []*contender, err error) {
	r, err := b.requests(s, b.perReq)
	if err != nil {
		return nil, err
	}
	add := func(name string, t *rig.Target, err error) error {
		if err != nil {
			return err
		}
		c := &contender{name: name, target: t}
		list = append(list, c)
		c.senders, err = rig.NewSenders(r, b.senders, t.GRPC)
		return err
	}
	t, err := rig.Collect(ctx, b.dir, b.kvwhatif, broker)
	err = add("kvwhatif collect", t, err)
	if err == nil && b.collector != "" {
		t, err = rig.PeerToKafka(ctx, b.dir, b.collector, broker)
		err = add("OpenTelemetry Collector", t, err)
	}
	return list, err
}

// toKafka asks what OTLP to Kafka costs.
func (b *bench) toKafka(ctx context.Context) (*Table, error) {
	t := &Table{
		ID: "P3", Title: "OTLP/gRPC to Apache Kafka, acknowledged by all in-sync replicas", First: "what",
		Columns: []string{"spans/CPU-s", "least", "most", "spans/s", "peak MiB"},
		Notes: []string{
			fmt.Sprintf("%d senders, %d spans a request, %d interleaved rounds of %v, medians; the CPU is the process's own.", b.senders, b.perReq, b.rounds, b.seconds),
			"Target: twice the peer's spans a CPU-second, aim 5 times.",
		},
	}
	for _, s := range b.shapes {
		if err := b.toKafkaOf(ctx, s.Shape, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (b *bench) toKafkaOf(ctx context.Context, s corpus.Shape, t *Table) error {
	broker, err := b.brokerFor(ctx)
	if err != nil {
		return err
	}
	list, err := b.contenders(ctx, broker, s)
	defer func() {
		for _, c := range list {
			c.stop()
		}
	}()
	if err != nil {
		return err
	}
	for _, c := range list { // warm, not counted
		if err := c.round(ctx, b.warm); err != nil {
			return err
		}
		c.perCPU, c.rates = nil, nil
	}
	for i := range b.rounds {
		for _, c := range list {
			b.say("P3 %s: round %d of %d, %s", s.Name, i+1, b.rounds, c.name)
			if err := c.round(ctx, b.seconds); err != nil {
				return err
			}
		}
	}
	if err := whole(broker, list); err != nil {
		return err
	}
	if err := b.profile(ctx, list[0], "collect-"+s.Name); err != nil {
		return err
	}
	return addContenders(t, s, list)
}

// brokerFor is a fresh one where what the peer wrote is to be counted.
func (b *bench) brokerFor(ctx context.Context) (*rig.Broker, error) {
	if b.collector == "" {
		return b.usedBroker(ctx, usualPartitions)
	}
	return b.freshBroker(ctx, usualPartitions)
}

// whole sees that the peer dropped nothing: what it writes is as large as what it
// is sent.
func whole(broker *rig.Broker, list []*contender) error {
	for _, c := range list[1:] {
		want, got := float64(c.sent)*c.senders.Requests.SpanBytes(), float64(broker.TopicBytes(peer.SpansTopic))
		if got < 0.98*want {
			return fmt.Errorf("the peer accepted %.0f bytes, and Kafka has %.0f: its spans a CPU-second would be too many (it says: %s)", want, got, c.target.Said())
		}
	}
	return nil
}

func addContenders(t *Table, s corpus.Shape, list []*contender) error {
	for i, c := range list {
		peak, err := rig.PeakMemory(c.target.Pid())
		if err != nil {
			return err
		}
		row := Row{Name: fmt.Sprintf("%s, %s, %.0f B", c.name, s.Name, c.senders.Requests.SpanBytes()), Ratio: none, Values: []Number{
			median(c.perCPU), Number(min1(c.perCPU)), Number(max1(c.perCPU)), median(c.rates), Number(peak) / (1 << 20),
		}}
		if i == 0 && len(list) > 1 {
			row.Ratio, row.To = median(c.perCPU)/median(list[1].perCPU), "peer"
		}
		t.Rows = append(t.Rows, row)
	}
	return nil
}
