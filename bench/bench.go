package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/bench/peer"
	"github.com/kvwhatif/kvwhatif/bench/rig"
)

// question is one that the bench answers.
type question struct {
	id  string
	ask func(*bench, context.Context) (*Table, error)
}

// questions in the order in which they are asked.
var questions = []question{
	{"P1", (*bench).columns}, {"P2", (*bench).fromKafka}, {"P3", (*bench).toKafka}, {"P4", (*bench).memory}, {"P5", (*bench).wholePath},
	{"S1", (*bench).serverCost}, {"P6", (*bench).onDisk}, {"P8", (*bench).decide}, {"P9", (*bench).fleet},
	{"G1", (*bench).growPartitions}, {"G2", (*bench).growRequests}, {"G3", (*bench).growSpans}, {"G4", (*bench).growCollectors},
}

func ids() (out []string) {
	for _, q := range questions {
		out = append(out, q.id)
	}
	return out
}

// mostUsed is how many bytes a broker may hold before it is thrown away.
const mostUsed = 6 << 30

// asked is a shape with its targets.
type asked struct {
	corpus.Shape
	nanos float64 // P1: CPU a span
	rate  float64 // P5: spans a second
	share int     // P2: of --spans, one in so many
}

// allShapes are those that most questions are asked about.
var allShapes = []asked{
	{Shape: corpus.Plain, nanos: 700, rate: 100_000, share: 1},
	{Shape: corpus.Contract, nanos: 3000, rate: 30_000, share: 4},
}

// bench is a run of it.
type bench struct {
	options
	dir        string // temporary
	root       string // of the module
	kvwhatif   string
	collector  string      // the peer; empty: left out
	broker     *rig.Broker // started when it is first asked for
	partitions int         // of its topics
}

func newBench(ctx context.Context, o options) (b *bench, err error) {
	b = &bench{options: o, kvwhatif: o.program}
	if b.root, err = rig.Root(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "kvwhatif-bench"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	b.collector, err = peer.Install(ctx, func(what string) { b.say("%s", what) })
	if errors.Is(err, peer.ErrLeftOut) {
		b.say("the peer is left out: %v", err)
		err = nil
	}
	if err == nil && b.kvwhatif == "" {
		b.say("building kvwhatif")
		b.kvwhatif, err = rig.Build(ctx, b.dir)
	}
	return b, err
}

func (b *bench) close() {
	if b.broker != nil {
		b.broker.End()
	}
	os.RemoveAll(b.dir)
}

// say tells how it goes, on standard error.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// all asks what was asked for.
func (b *bench) all(ctx context.Context) (*report, error) {
	r := newReport(b)
	for _, q := range questions {
		if len(b.only) > 0 && !slices.Contains(b.only, q.id) {
			continue
		}
		b.say("%s", q.id)
		before := load()
		t, err := q.ask(b, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.id, err)
		}
		t.Measured = fmt.Sprintf("Measured %s, kvwhatif %s, load before %s: `%s`.", r.Date, r.Versions["kvwhatif"], before, b.command())
		r.add(t)
		if !b.json {
			t.Text(os.Stdout)
		}
	}
	return r, nil
}

// command is what was asked, without where the answer goes.
func (b *bench) command() string {
	return fmt.Sprintf("go run ./bench --seconds %v --rounds %d --spans %d --senders %d --spans-a-request %d", b.seconds, b.rounds, b.spans, b.senders, b.perReq)
}

// freshBroker has empty topics of so many partitions.
func (b *bench) freshBroker(ctx context.Context, partitions int) (*rig.Broker, error) {
	if b.broker != nil {
		b.broker.End()
	}
	var err error
	if b.broker, err = rig.StartBroker(b.dir); err != nil {
		return nil, err
	}
	b.partitions = partitions
	if err = b.broker.PartsTopics(ctx, partitions); err == nil {
		err = b.broker.Topics(ctx, partitions, peer.SpansTopic)
	}
	return b.broker, err
}

// usedBroker is one whose topics may hold something, for what does not read them.
func (b *bench) usedBroker(ctx context.Context, partitions int) (*rig.Broker, error) {
	if b.broker != nil && b.partitions == partitions && b.broker.TopicBytes("*") < mostUsed {
		return b.broker, nil
	}
	return b.freshBroker(ctx, partitions)
}

// requests makes requests that begin now.
func (b *bench) requests(s corpus.Shape, spans int) (*corpus.Requests, error) {
	return corpus.New(corpus.Config{Shape: s, Spans: spans, Seed: 1, Base: time.Now(), Step: 10 * time.Microsecond})
}
