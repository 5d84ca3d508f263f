package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/bench/rig"
)

// peerBatch is how many bytes of spans the peer inserts at once, 100,000 plain
// ones: its best, at the price of memory.
const peerBatch = 36_000_000

// loader is a way back from Kafka.
type loader struct {
	name   string
	perCPU []float64 // rows a CPU-second of its own
	server []float64 // rows a CPU-second of ClickHouse
	rates  []float64 // rows a second
	peak   int64
	run    func(ctx context.Context, d *rig.Database, round int) (rig.Loaded, error)
}

func (l *loader) note(rows float64, got rig.Loaded) {
	l.perCPU = append(l.perCPU, rows/got.CPU.Seconds())
	l.server = append(l.server, rows/got.Server.Seconds())
	l.rates = append(l.rates, rows/got.Took.Seconds())
	l.peak = max(l.peak, got.PeakByte)
}

// fromKafka asks what Kafka to ClickHouse costs.
func (b *bench) fromKafka(ctx context.Context) (*Table, error) {
	t := &Table{
		ID: "P2", Title: "Apache Kafka to ClickHouse", First: "what",
		Columns: []string{"rows/CPU-s", "least", "most", "rows/s", "rows/server CPU-s", "peak MiB"},
		Notes: []string{
			fmt.Sprintf("%d spans (a quarter of that with candidates) wait in a topic; each round loads them into an empty database, interleaved, medians of %d.", b.spans, b.loadRounds()),
			"load's CPU is all of the process's: start, rollups, commits; ClickHouse's is counted apart, merges and load's rollups with it.",
			fmt.Sprintf("The peer inserts %d MB of spans at once into its own table, without rollups. Both share the machine's cores with ClickHouse and Kafka.", peerBatch/1_000_000),
			"Target: 600,000 plain spans a CPU-second.",
		},
	}
	for _, s := range b.shapes {
		if err := b.fromKafkaOf(ctx, s.Shape, b.spans/s.share/b.perReq, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// loadRounds are fewer, for each begins with an empty database.
func (b *bench) loadRounds() int { return min(b.rounds, 3) }

func (b *bench) fromKafkaOf(ctx context.Context, s corpus.Shape, requests int, t *Table) error {
	broker, err := b.freshBroker(ctx, usualPartitions)
	if err != nil {
		return err
	}
	r, err := b.requestsUntilNow(s, b.perReq, requests)
	if err != nil {
		return err
	}
	b.say("P2 %s: filling the topics with %d requests of %d spans", s.Name, requests, b.perReq)
	if err := rig.Fill(ctx, broker, r, requests); err != nil {
		return err
	}
	rows := int64(requests) * int64(b.perReq)
	list := []*loader{{name: "kvwhatif load", run: func(ctx context.Context, d *rig.Database, round int) (rig.Loaded, error) {
		return rig.Load(ctx, rig.Loading{Dir: b.dir, Program: b.kvwhatif, Broker: broker, Database: d, Rows: rows, During: b.profileOnce(ctx, round, "load-"+s.Name)})
	}}}
	if b.collector != "" {
		if err := b.fillPeer(ctx, broker, r, requests); err != nil {
			return err
		}
		list = append(list, &loader{name: "OpenTelemetry Collector", run: func(ctx context.Context, d *rig.Database, round int) (rig.Loaded, error) {
			return rig.PeerFromKafka(ctx, b.dir, b.collector, broker, d, rows, fmt.Sprint("peer-", round), int(peerBatch/r.SpanBytes()))
		}})
	}
	for i := range b.loadRounds() {
		for _, l := range list {
			b.say("P2 %s: round %d of %d, %s", s.Name, i+1, b.loadRounds(), l.name)
			if err := b.loadRound(ctx, l, i, rows); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
	}
	addLoaders(t, s, list)
	return nil
}

func (b *bench) loadRound(ctx context.Context, l *loader, round int, rows int64) error {
	d, err := rig.StartDatabase(ctx, b.dir)
	if err != nil {
		return err
	}
	defer d.End()
	got, err := l.run(ctx, d, round)
	if err == nil {
		l.note(float64(rows), got)
	}
	return err
}

// fillPeer has the peer fill its own topic.
func (b *bench) fillPeer(ctx context.Context, broker *rig.Broker, r *corpus.Requests, requests int) error {
	t, err := rig.PeerToKafka(ctx, b.dir, b.collector, broker)
	if err != nil {
		return err
	}
	defer t.Stop()
	senders, err := rig.NewSenders(r, b.senders, t.GRPC)
	if err != nil {
		return err
	}
	defer senders.Close()
	_, err = senders.Count(ctx, requests)
	return err
}

// profileOnce keeps a profile of the first round: the others are without.
func (b *bench) profileOnce(ctx context.Context, round int, name string) func(*rig.Process) {
	if b.profiles == "" || round > 0 {
		return nil
	}
	return func(p *rig.Process) {
		if err := b.keepProfile(ctx, p, name, 3); err != nil {
			b.say("%v", err)
		}
	}
}

func addLoaders(t *Table, s corpus.Shape, list []*loader) {
	for i, l := range list {
		row := Row{Name: l.name + ", " + s.Name, Ratio: none, Values: []Number{
			median(l.perCPU), Number(min1(l.perCPU)), Number(max1(l.perCPU)), median(l.rates), median(l.server), Number(l.peak) / (1 << 20),
		}}
		if i == 0 && len(list) > 1 {
			row.Ratio, row.To = median(l.perCPU)/median(list[1].perCPU), "peer"
		}
		t.Rows = append(t.Rows, row)
	}
}

// requestsUntilNow makes requests of which the last ends now, as at 100,000 spans
// a second.
func (b *bench) requestsUntilNow(s corpus.Shape, spans, requests int) (*corpus.Requests, error) {
	const step = 10 * time.Microsecond
	base := time.Now().Add(-time.Duration(spans*requests) * step)
	return corpus.New(corpus.Config{Shape: s, Spans: spans, Seed: 1, Base: base, Step: step})
}
