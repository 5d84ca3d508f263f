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
	{"P1", (*bench).columns}, {"P2", (*bench).fromKafka}, {"P3", (*bench).toKafka}, {"P4", (*bench).memory}, {"P5", (*bench).wholePath}, {"P8", (*bench).decide}, {"P9", (*bench).fleet},
}

func ids() (out []string) {
	for _, q := range questions {
		out = append(out, q.id)
	}
	return out
}

// bench is a run of it.
type bench struct {
	options
	dir       string // temporary
	root      string // of the module
	kvwhatif  string
	collector string      // the peer; empty: left out
	broker    *rig.Broker // started when it is first asked for
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
		t, err := q.ask(b, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.id, err)
		}
		r.Tables = append(r.Tables, t)
		if !b.json {
			t.Text(os.Stdout)
		}
	}
	return r, nil
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
	if err = b.broker.PartsTopics(ctx, partitions); err == nil {
		err = b.broker.Topics(ctx, partitions, peer.SpansTopic)
	}
	return b.broker, err
}

// requests makes requests that begin now.
func (b *bench) requests(s corpus.Shape, spans int) (*corpus.Requests, error) {
	return corpus.New(corpus.Config{Shape: s, Spans: spans, Seed: 1, Base: time.Now(), Step: 10 * time.Microsecond})
}
