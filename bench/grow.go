package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/bench/rig"
)

// point is what is varied, one thing at a time.
type point struct {
	name       string
	shape      corpus.Shape
	spans      int // a request
	partitions int
	collectors int
}

// growRounds of each point are measured.
const growRounds = 3

// usual is what a point is where it is not said otherwise.
func (b *bench) usual() point {
	return point{shape: corpus.Plain, spans: b.perReq, partitions: usualPartitions, collectors: 1}
}

// capped leaves out what is larger than the options say.
func (b *bench) capped(list ...int) (out []int) {
	for _, n := range list {
		if b.largest == 0 || n <= b.largest {
			out = append(out, n)
		}
	}
	return out
}

func (b *bench) growPartitions(ctx context.Context) (*Table, error) {
	var list []point
	for _, n := range b.capped(1, 2, 4, 8) {
		p := b.usual()
		p.name, p.partitions = fmt.Sprint(n), n
		list = append(list, p)
	}
	return b.grow(ctx, "G1", "partitions", "collect does no work by partition; batches are spread round robin.", list)
}

func (b *bench) growRequests(ctx context.Context) (*Table, error) {
	var list []point
	for _, n := range b.capped(64, 512, 2048, 8192) {
		p := b.usual()
		p.name, p.spans = fmt.Sprint(n), n
		list = append(list, p)
	}
	return b.grow(ctx, "G2", "spans a request", "A request costs two system calls or more and a message of Kafka, whatever it holds.", list)
}

func (b *bench) growSpans(ctx context.Context) (*Table, error) {
	var list []point
	for _, s := range []corpus.Shape{corpus.Plain, {Name: "1 candidate", Candidates: 1}, corpus.Contract, {Name: "10 candidates", Candidates: 10}, {Name: "3 candidates, 100 blocks", Candidates: 3, Blocks: 100}} {
		p := b.usual()
		p.name, p.shape = s.Name, s
		list = append(list, p)
	}
	return b.grow(ctx, "G3", "span", "An attribute is an element of an array of an array, so a span costs by its attributes and elements more than by its bytes.", list)
}

func (b *bench) growCollectors(ctx context.Context) (*Table, error) {
	var list []point
	for _, n := range b.capped(1, 2, 4) {
		p := b.usual()
		p.name, p.collectors = fmt.Sprint(n), n
		list = append(list, p)
	}
	return b.grow(ctx, "G4", "collectors", "Collectors share nothing but the broker, so what one more adds is bounded by the cores, of which senders and broker take a part.", list)
}

func (b *bench) grow(ctx context.Context, id, what, bound string, list []point) (*Table, error) {
	t := &Table{ID: id, Title: "how collect's cost grows: " + what, First: what,
		Columns: []string{"B/span", "CPU ns/span", "CPU ns/B", "spans/s", "peak MiB"},
		Notes:   []string{fmt.Sprintf("OTLP/gRPC to Apache Kafka as in P3, %d senders, medians of %d rounds of %v; the ratio is CPU a span to the first row's.", b.senders, min(b.rounds, growRounds), b.seconds), bound}}
	for i, p := range list {
		b.say("%s: %s %s", id, what, p.name)
		row, err := b.growPoint(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", what, p.name, err)
		}
		row.Name, row.Ratio, row.To = p.name, row.Values[1], "first"
		if i > 0 {
			row.Ratio /= t.Rows[0].Values[1]
		} else {
			row.Ratio = 1
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// growPoint measures collectors on one broker.
func (b *bench) growPoint(ctx context.Context, p point) (Row, error) {
	broker, err := b.usedBroker(ctx, p.partitions)
	if err != nil {
		return Row{}, err
	}
	var addrs []string
	var pids []int
	for range p.collectors {
		env := fmt.Sprintf("KVWHATIF_TOPICS_PARTITIONS=%d", p.partitions)
		target, err := rig.Collect(ctx, b.dir, b.kvwhatif, broker, env)
		if err != nil {
			return Row{}, err
		}
		defer target.Stop()
		addrs, pids = append(addrs, target.GRPC), append(pids, target.Pid())
	}
	r, err := b.requests(p.shape, p.spans)
	if err != nil {
		return Row{}, err
	}
	senders, err := rig.NewSenders(r, b.senders, addrs...)
	if err != nil {
		return Row{}, err
	}
	defer senders.Close()
	if _, err := senders.For(ctx, b.warm); err != nil {
		return Row{}, err
	}
	return b.growRounds(ctx, senders, pids)
}

func (b *bench) growRounds(ctx context.Context, senders *rig.Senders, pids []int) (Row, error) {
	var nanos, rates []float64
	for range min(b.rounds, growRounds) {
		before, err := sumCPU(pids)
		if err != nil {
			return Row{}, err
		}
		sent, err := senders.For(ctx, b.seconds)
		if err != nil {
			return Row{}, err
		}
		after, err := sumCPU(pids)
		if err != nil {
			return Row{}, err
		}
		nanos = append(nanos, float64(after-before)/float64(sent.Spans))
		rates = append(rates, sent.Rate())
	}
	peak := int64(0)
	for _, pid := range pids {
		p, err := rig.PeakMemory(pid)
		if err != nil {
			return Row{}, err
		}
		peak = max(peak, p)
	}
	size := Number(senders.Requests.SpanBytes())
	return Row{Values: []Number{size, median(nanos), median(nanos) / size, median(rates), Number(peak) / (1 << 20)}}, nil
}

func sumCPU(pids []int) (total time.Duration, err error) {
	for _, pid := range pids {
		used, err := rig.CPU(pid)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}
