package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/bench/rig"
)

const (
	memoryRate   = 100_000 // spans a second
	memoryTarget = 64      // MiB
	// memoryRounds long is the time that a memory is looked at.
	memoryRounds = 4
)

// memory asks how much of it collect holds at a steady rate.
func (b *bench) memory(ctx context.Context) (*Table, error) {
	t := &Table{
		ID: "P4", Title: fmt.Sprintf("resident memory at %d plain spans a second", memoryRate), First: "what",
		Columns: []string{"spans a request", "spans/s", "CPU %", "peak MiB"},
		Notes: []string{
			fmt.Sprintf("%d senders, more where requests are small, paced, for %v; the peak is the kernel's VmHWM, from the start of the process.", b.senders, memoryRounds*b.seconds),
			fmt.Sprintf("Target: %d MiB.", memoryTarget),
		},
	}
	broker, err := b.usedBroker(ctx, usualPartitions)
	if err != nil {
		return nil, err
	}
	for _, spans := range []int{b.perReq / 8, b.perReq, b.perReq * 8} {
		start := func() (*rig.Target, error) { return rig.Collect(ctx, b.dir, b.kvwhatif, broker) }
		if err := b.memoryOf(ctx, "kvwhatif collect", spans, start, t); err != nil {
			return nil, err
		}
	}
	if b.collector == "" {
		return t, nil
	}
	start := func() (*rig.Target, error) { return rig.PeerToKafka(ctx, b.dir, b.collector, broker) }
	return t, b.memoryOf(ctx, "OpenTelemetry Collector", b.perReq, start, t)
}

func (b *bench) memoryOf(ctx context.Context, name string, spans int, start func() (*rig.Target, error), t *Table) error {
	b.say("P4: %s, %d spans a request", name, spans)
	r, err := b.requests(corpus.Plain, spans)
	if err != nil {
		return err
	}
	target, err := start()
	if err != nil {
		return err
	}
	defer target.Stop()
	// Small requests need more senders to come at the rate.
	senders, err := rig.NewSenders(r, b.senders*max(1, b.perReq/spans), target.GRPC)
	if err != nil {
		return err
	}
	defer senders.Close()
	before, err := rig.CPU(target.Pid())
	if err != nil {
		return err
	}
	sent, err := senders.Paced(ctx, memoryRate, memoryRounds*b.seconds, nil)
	if err != nil {
		return err
	}
	after, err := rig.CPU(target.Pid())
	if err != nil {
		return err
	}
	peak, err := rig.PeakMemory(target.Pid())
	mib := Number(peak) / (1 << 20)
	t.Rows = append(t.Rows, Row{Name: name, Ratio: mib / memoryTarget, To: "target", Values: []Number{
		Number(spans), Number(sent.Rate()), Number(100 * (after - before).Seconds() / sent.Took.Round(time.Millisecond).Seconds()), mib,
	}})
	return err
}
