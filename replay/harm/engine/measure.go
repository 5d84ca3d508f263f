package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/live"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Block is some requests on end, with or without a replayer beside them.
type Block struct {
	Pair    int          `json:"pair"`
	With    bool         `json:"with"`
	TTFT    []float64    `json:"ttft_seconds"` // in the order of the requests
	Beside  []bool       `json:"beside"`       // which of them met a leg on their worker
	Wall    float64      `json:"wall_seconds"`
	GPU     float64      `json:"gpu_seconds"` // of its requests: prefill and restoration
	Bytes   float64      `json:"bytes"`       // that they moved
	Legs    int          `json:"legs"`        // attempts at one
	LegCost execute.Cost `json:"leg_cost"`
	Waited  float64      `json:"waited"` // share of the time that the servers could have run and had no CPU, 0 to 1; −1: not known
}

// ladderTokens are the prompts that are measured before the traffic.
var ladderTokens = []int{128, 256, 512}

// Measure runs the blocks on servers of its own in dir; note, where it is not nil,
// is told of each.
func Measure(ctx context.Context, dir string, s Settings, log *slog.Logger, note func(Block)) (result Result, err error) {
	if err := s.validate(); err != nil {
		return result, err
	}
	f, err := live.Start(ctx, filepath.Join(dir, "fleet"), s.Fleet)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m := &measurement{Settings: s, fleet: f, note: note, parts: make(chan schema.Part, 1024), tracer: sdktrace.NewTracerProvider()}
	if m.ladder, err = climb(ctx, f); err != nil {
		return result, err
	}
	if err := m.replayer(log); err != nil {
		return result, err
	}
	running, stop := context.WithCancel(ctx)
	group, inner := errgroup.WithContext(running)
	group.Go(func() error { return m.runner.Run(inner, m, m.gate) })
	group.Go(func() error {
		defer stop()
		return m.blocks(inner)
	})
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return result, err
	}
	return m.summarize()
}

// climb measures the ladder several times, and takes the least of each: a neighbour
// on the machine is not what a request will cost.
func climb(ctx context.Context, f *live.Fleet) ([]live.Rung, error) {
	best, err := f.Ladder(ctx, ladderTokens)
	for i := 0; i < 4 && err == nil; i++ {
		var again []live.Rung
		again, err = f.Ladder(ctx, ladderTokens)
		for j := range again {
			best[j].Prefill, best[j].Restore = min(best[j].Prefill, again[j].Prefill), min(best[j].Restore, again[j].Restore)
		}
	}
	return best, err
}

// measurement is one under way.
type measurement struct {
	Settings
	fleet  *live.Fleet
	ladder []live.Rung
	runner *replay.Runner
	gate   *gate
	tracer *sdktrace.TracerProvider
	parts  chan schema.Part // decisions, for the replayer
	note   func(Block)
	runs   int
	done   []Block
}

func (m *measurement) replayer(log *slog.Logger) error {
	params := sample.DefaultParams()
	params.Rate = m.Rate
	plan, err := sample.New(params, fmt.Appendf(nil, "harm on the engine, seed %020d", m.Seed))
	if err != nil {
		return err
	}
	executor, err := m.fleet.Executor()
	if err != nil {
		return err
	}
	m.gate = newGate(executor)
	m.runner, err = replay.New(replay.Config{
		Plan: plan, Limits: m.Limits, Idle: m.Idle, Breaker: m.Breaker, Logger: log,
		Emit: func(context.Context, schema.Part) error { return nil },
	}, replay.NewMemoryStore())
	return err
}

// Next gives the replayer its decisions.
func (m *measurement) Next(ctx context.Context) (replay.Batch, error) {
	select {
	case p, open := <-m.parts:
		if !open {
			return replay.Batch{}, io.EOF
		}
		return replay.Batch{Parts: []*schema.Part{&p}, Ack: func(context.Context) error { return nil }}, nil
	case <-ctx.Done():
		return replay.Batch{}, ctx.Err()
	}
}

// blocks runs all of them, in random order within a pair.
func (m *measurement) blocks(ctx context.Context) error {
	for range m.WarmUp {
		if _, err := m.block(ctx, -1, false); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(m.Seed, 0x6f72646572))
	for i := range m.Pairs {
		first := rng.IntN(2) == 0
		for _, with := range []bool{first, !first} {
			b, err := m.block(ctx, i, with)
			if err != nil {
				return err
			}
			m.done = append(m.done, b)
			if m.note != nil {
				m.note(b)
			}
		}
	}
	return nil
}

// block runs one. Those of a pair, and of the next where the pair is even, are the
// same requests. Pair −1 warms up: the replayer sees its decisions, and runs nothing.
func (m *measurement) block(ctx context.Context, pair int, with bool) (b Block, err error) {
	if err := m.fleet.Forget(); err != nil {
		return b, err
	}
	salt := m.Seed<<16 + uint64(pair/2+1)
	traffic := m.Traffic
	traffic.Seed = salt
	requests := traffic.Stream()
	for i := range requests {
		requests[i].ID = fmt.Sprintf("harm-%d-%d", m.runs, i)
	}
	m.runs++
	options := live.Options{
		Policy: "fetch-all", Tracer: m.tracer.Tracer("harm"),
		Decide: fleet.FetchAll(m.fleet.PredictBy(m.fleet.Prior(m.ladder)), fleet.Exploration{Share: m.Explore, Salt: salt}),
	}
	if with || pair < 0 {
		options.Served = func(p schema.Part) { m.parts <- p }
	}
	_, before := m.gate.since(time.Now())
	began, waited := time.Now(), m.waiting()
	if with {
		m.gate.open()
		// Legs after the last request would harm nobody.
		defer time.AfterFunc(requests[len(requests)-1].At, m.gate.shut).Stop()
	}
	parts, err := m.fleet.Run(ctx, requests, options)
	m.gate.shut()
	if err = errors.Join(err, m.gate.rest(ctx)); err != nil {
		return b, err
	}
	b = Block{Pair: pair, With: with, Wall: time.Since(began).Seconds(), Waited: waited()}
	spans, after := m.gate.since(began)
	b.LegCost = execute.Cost{GPUSeconds: after.GPUSeconds - before.GPUSeconds, Bytes: after.Bytes - before.Bytes}
	b.Legs = len(spans)
	b.take(parts, spans)
	return b, nil
}

// waiting begins to look at what others take of the machine, and gives the share.
func (m *measurement) waiting() func() float64 {
	ran, waited, _ := m.fleet.CPU()
	return func() float64 {
		r, w, err := m.fleet.CPU()
		if err != nil {
			return -1
		}
		return (w - waited).Seconds() / (r - ran + w - waited).Seconds()
	}
}

// take adds what the requests came to.
func (b *Block) take(parts []schema.Part, spans []span) {
	for i := range parts {
		p := &parts[i]
		b.TTFT = append(b.TTFT, p.Observed.TTFT.V)
		b.GPU += p.Observed.Prefill.Or(0) + p.Observed.Restore.Or(0)
		b.Bytes += float64(p.Observed.Bytes.Or(0))
		beside := false
		for _, s := range spans {
			beside = beside || (s.worker == p.Decision.Worker && s.begin.UnixNano() <= p.EndNanos && s.end.UnixNano() >= p.StartNanos)
		}
		b.Beside = append(b.Beside, beside)
	}
}
