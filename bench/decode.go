package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/bench/rig"
	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/collector/publish"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// cost is what a span costs.
type cost struct {
	nanos  []float64 // CPU, by round
	allocs []float64
}

func (c *cost) note(nanos, allocs float64) {
	c.nanos, c.allocs = append(c.nanos, nanos), append(c.allocs, allocs)
}

// measured is a way to take in a request.
type measured struct {
	name string
	cost cost
	run  func(ctx context.Context, d time.Duration) (nanos, allocs float64, err error) // of a request
}

// loop runs a step for a while in this process, and gives what one took: CPU with
// what the garbage collector adds, and allocations.
func loop(step func() error) func(context.Context, time.Duration) (float64, float64, error) {
	return func(ctx context.Context, d time.Duration) (float64, float64, error) {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began, n := rig.OwnCPU(), 0
		for ends := time.Now().Add(d); time.Now().Before(ends) && ctx.Err() == nil; n++ {
			if err := step(); err != nil {
				return 0, 0, err
			}
		}
		used := rig.OwnCPU() - began
		runtime.ReadMemStats(&after)
		return float64(used) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n), ctx.Err()
	}
}

// nobody acknowledges everything.
type nobody struct{}

// Produce forgets the messages.
func (nobody) Produce(context.Context, string, ...kafka.Message) error { return nil }

// collecting is collect's half: a request to parts to the bytes of messages.
func collecting(body []byte) func() error {
	var out extract.Result
	limits := extract.DefaultLimits(time.Now().UnixNano())
	p := publish.New(nobody{})
	return func() error {
		if err := extract.Extract(body, limits, &out); err != nil {
			return err
		}
		if len(out.Rejected) > 0 {
			return fmt.Errorf("a span is refused: %s", out.Rejected[0].Reason)
		}
		return p.Publish(context.Background(), &out)
	}
}

// nested says which fields hold messages that a walk goes into, from the request
// down to a value.
var nested = []map[protowire.Number]bool{{1: true}, {2: true}, {2: true}, {9: true}, {2: true}, {5: true}, {1: true}}

// walkBare reads every tag and length of a request by protowire's functions, and
// does nothing with them.
func walkBare(b []byte, depth int) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		inner, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if depth < len(nested) && nested[depth][number] {
			if err := walkBare(inner, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// pdata times the collector's own decoder, as another process.
func (b *bench) pdata(ctx context.Context, body []byte) (*measured, error) {
	program, file := filepath.Join(b.dir, "pdata"), filepath.Join(b.dir, "request.pb")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
		cmd.Dir = filepath.Join(b.root, "bench", "peer", "pdata")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the peer's decoder: %w: %s", err, out)
		}
	}
	return &measured{name: "pdata unmarshal", run: func(ctx context.Context, d time.Duration) (float64, float64, error) {
		out, err := exec.CommandContext(ctx, program, file, strconv.FormatFloat(d.Seconds(), 'f', -1, 64)).Output()
		var got struct{ NS, Allocs float64 }
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		return got.NS, got.Allocs, err
	}}, nil
}

// decoders are what is measured of one request, ours first.
func (b *bench) decoders(ctx context.Context, body []byte) ([]*measured, error) {
	request := new(collectorpb.ExportTraceServiceRequest)
	list := []*measured{
		{name: "collect: OTLP bytes to batch bytes", run: loop(collecting(body))},
		{name: "bare walk over the fields (bound)", run: loop(func() error { return walkBare(body, 0) })},
		{name: "google proto unmarshal", run: loop(func() error { return proto.Unmarshal(body, request) })},
	}
	if b.collector == "" {
		return list, nil
	}
	p, err := b.pdata(ctx, body)
	return append(list, p), err
}

// columns asks what it costs to bring OTLP's bytes into ClickHouse's columns.
func (b *bench) columns(ctx context.Context) (*Table, error) {
	t := &Table{
		ID: "P1", Title: "OTLP bytes to the columns of an insert, one core", First: "step",
		Columns: []string{"CPU ns/span", "allocations/span"},
		Notes: []string{
			fmt.Sprintf("%d spans a request; CPU of the process, with the garbage collector's; medians of %d interleaved rounds.", b.perReq, b.rounds),
			"load's half is its own benchmark, on requests of its own with as many candidates; the rest is on the same bytes.",
			"Targets: plain 700 ns, contract 3 µs, 0.01 allocations a span. The bare walk is protowire's own functions, reading every tag and length and nothing else: what a usual decoder cannot go below.",
		},
	}
	for _, s := range b.shapes {
		if err := b.columnsOf(ctx, s.Shape, s.nanos, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (b *bench) columnsOf(ctx context.Context, s corpus.Shape, target float64, t *Table) error {
	r, err := b.requests(s, b.perReq)
	if err != nil {
		return err
	}
	list, err := b.decoders(ctx, r.Append(nil, 0))
	if err != nil {
		return err
	}
	for i := range b.rounds {
		for _, m := range list {
			b.say("P1 %s: round %d of %d, %s", s.Name, i+1, b.rounds, m.name)
			nanos, allocs, err := m.run(ctx, b.seconds/5)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			m.cost.note(nanos/float64(b.perReq), allocs/float64(b.perReq))
		}
	}
	load, err := b.loading(ctx, s.Name)
	if err != nil {
		return err
	}
	ours, bound := list[0], median(list[1].cost.nanos)
	row := func(name string, nanos, allocs, ratio Number, to string) {
		t.Rows = append(t.Rows, Row{Name: fmt.Sprintf("%s, %s, %.0f B", name, s.Name, r.SpanBytes()), Values: []Number{nanos, allocs}, Ratio: ratio, To: to})
	}
	half, halfLoad := median(ours.cost.nanos), median(load.nanos)
	row("both", half+halfLoad, median(ours.cost.allocs)+median(load.allocs), (half+halfLoad)/Number(target), "target")
	row(ours.name, half, median(ours.cost.allocs), half/bound, "bound")
	row("load: batch bytes to columns", halfLoad, median(load.allocs), halfLoad/bound, "bound")
	for _, m := range list[1:] {
		row(m.name, median(m.cost.nanos), median(m.cost.allocs), median(m.cost.nanos)/half, "collect")
	}
	return nil
}
