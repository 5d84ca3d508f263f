package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/calibrate/read"
	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/internal/retry"
	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/live"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
	"github.com/kvwhatif/kvwhatif/schema"
)

// EngineLlama is the engine of a demo on real llama.cpp servers.
const EngineLlama = "llama.cpp"

// Shares of a live demo: large, for three minutes hold few requests, and a replay
// waits for an idle engine whatever it may cost.
const (
	liveExplore = 0.4
	liveRate    = 0.9
	liveMinN    = 20               // observations that a law needs
	liveRetry   = time.Second / 5  // before a busy engine is asked again
	liveTail    = 90 * time.Second // after the last request, for the legs that wait
	liveService = "coordinator-live"
)

// liveLadder is the prompts, tokens, that are measured before the traffic.
var liveLadder = []int{256, 512, 1024, 2048}

// liveDemo is a demo on real engines under way.
type liveDemo struct {
	*demo
	fleet    *live.Fleet
	plan     *sample.Plan
	ladder   []live.Rung
	parts    []schema.Part
	window   verdict.Window
	replays  replay.Stats
	links    []live.WorkerConfig
	requests []live.Request
}

// DemoLlama runs the whole loop on llama.cpp servers of this machine: live traffic
// in real time, replays on the same servers, the verdict of each link, a fit and
// the report.
func DemoLlama(ctx context.Context, s *Settings, o DemoOptions, log *slog.Logger) (result *LiveResult, err error) {
	if _, err := llama.Find(); err != nil {
		return nil, err
	}
	began := time.Now()
	settings := demoSettings(s)
	settings.Replay.Rate, settings.Calibrate.MinN = liveRate, liveMinN
	d := &liveDemo{demo: &demo{
		DemoOptions: o, settings: settings, log: log, began: began, run: fmt.Sprintf("live-%d", began.UnixNano()),
	}, links: live.DefaultWorkers()}
	if d.dir, err = OpenDir(s.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.dir.Close()) }()
	if held := d.dir.State.Demo; held != "" && held != EngineLlama {
		return nil, fmt.Errorf("directory %s holds the demo of %s: choose another with --dir, or remove it", s.Dir, held)
	}
	d.dir.State.Demo = EngineLlama
	d.note("start the engines", 0, 1)
	if d.backend, err = OpenEmbedded(ctx, d.dir, d.settings, log); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.backend.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	d.process = newProcess(ctx, "demo", log)
	defer func() { cancel(); err = errors.Join(err, d.process.wait()) }()
	if err := d.start(); err != nil {
		return nil, err
	}
	if d.fleet, err = live.Start(ctx, d.dir.Join("fleet"), live.Config{Workers: d.links}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.fleet.Close()) }()
	d.note("start the engines", 1, 1)
	return d.liveSteps(d.process.ctx)
}

func (d *liveDemo) liveSteps(ctx context.Context) (*LiveResult, error) {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"ladder", d.climb}, {"traffic", d.drive}, {"verdicts", d.judgeLive}, {"calibrate", d.fitLive},
	} {
		if err := step.do(ctx); err != nil {
			return nil, d.explain(step.name, err)
		}
	}
	return d.liveReport(ctx)
}

// climb measures what the coordinator predicts by.
func (d *liveDemo) climb(ctx context.Context) error {
	for i, n := range liveLadder {
		d.note("measure a ladder", i, len(liveLadder))
		r, err := d.fleet.Ladder(ctx, []int{n})
		if err != nil {
			return err
		}
		d.ladder = append(d.ladder, r...)
	}
	d.note("measure a ladder", len(liveLadder), len(liveLadder))
	return nil
}

// drive runs the traffic with replays beside it.
func (d *liveDemo) drive(ctx context.Context) (err error) {
	emitter, err := NewEmitter(ctx, SenderSettings{}, d.at.GRPC, liveService)
	if err != nil {
		return err
	}
	r, err := d.newLiveReplay(ctx)
	if err != nil {
		return errors.Join(err, emitter.Close(ctx))
	}
	traffic := live.DefaultTraffic()
	traffic.Seed = d.Seed
	if d.Requests > 0 {
		traffic.Requests = d.Requests
	}
	d.requests = traffic.Stream()
	for i := range d.requests {
		d.requests[i].ID = fmt.Sprintf("%s-%d", d.run, i)
	}
	legs, stop := context.WithCancel(ctx)
	group, inner := errgroup.WithContext(legs)
	group.Go(func() error { return r.runner.Run(inner, r.source, r.executor) })
	d.window.From = time.Now()
	group.Go(func() error {
		defer stop()
		d.parts, err = d.fleet.Run(inner, d.requests, live.Options{
			Policy: PolicyFetchAll, Tracer: emitter.Tracer(), Tick: d.ticker("live traffic"),
			Decide: fleet.FetchAll(d.fleet.PredictBy(d.fleet.Prior(d.ladder)), fleet.Exploration{Share: liveExplore, Salt: explorationSalt ^ d.Seed}),
		})
		if err != nil {
			return err
		}
		d.window.Until = time.Now()
		if err := emitter.Flush(inner); err != nil {
			return err
		}
		return r.finish(inner, len(d.parts), d.ticker("replays that wait"))
	})
	err = errors.Join(group.Wait(), ctx.Err())
	d.replays = r.runner.Stats()
	return errors.Join(err, r.source.Close(), r.emitter.Close(context.WithoutCancel(ctx)), emitter.Close(context.WithoutCancel(ctx)))
}

// liveReplay is the replayer of a live demo: it reads decisions from Kafka, as one
// of its own process would.
type liveReplay struct {
	runner   *replay.Runner
	source   *countingSource
	executor *execute.Llama
	emitter  *legEmitter
}

func (d *liveDemo) newLiveReplay(ctx context.Context) (*liveReplay, error) {
	salt, err := hex.DecodeString(d.dir.State.ReplaySalt)
	if err != nil {
		return nil, fmt.Errorf("replay salt in %s: %w", d.dir.Join(stateFile), err)
	}
	if d.plan, err = d.settings.Replay.plan(salt); err != nil {
		return nil, err
	}
	r := &liveReplay{}
	if r.executor, err = d.fleet.Executor(); err != nil {
		return nil, err
	}
	if r.emitter, err = newLegEmitter(ctx, SenderSettings{}, d.at.GRPC, d.log); err != nil {
		return nil, err
	}
	limits := demoLimits(d.settings.Replay)
	limits.Share, limits.GPURate, limits.ByteRate, limits.GPUBurst = 1, 2, 1e9, 600
	r.runner, err = replay.New(replay.Config{
		Batch: demoBatch, Plan: d.plan, Limits: limits, Emit: r.emitter.Emit, Concurrency: 2 * len(d.links), Retry: liveRetry, Logger: d.log,
	}, replay.NewMemoryStore())
	if err != nil {
		return nil, err
	}
	source, err := replay.NewKafkaSource(d.cluster(), schema.TopicParts, d.log)
	r.source = &countingSource{KafkaSource: source, run: d.run}
	return r, err
}

// countingSource passes on the decisions of one run, and counts them.
type countingSource struct {
	*replay.KafkaSource
	run  string
	seen atomic.Int64
}

// Next leaves out what an earlier run in the directory decided.
func (s *countingSource) Next(ctx context.Context) (replay.Batch, error) {
	b, err := s.KafkaSource.Next(ctx)
	kept := b.Parts[:0]
	for _, p := range b.Parts {
		if len(p.RequestID) > len(s.run) && p.RequestID[:len(s.run)] == s.run {
			kept = append(kept, p)
		}
	}
	b.Parts = kept
	s.seen.Add(int64(len(kept)))
	return b, err
}

// finish waits until all decisions were drawn from and all legs ended, or liveTail.
func (r *liveReplay) finish(ctx context.Context, decisions int, tick func(done, total int)) error {
	for end := time.Now().Add(liveTail); time.Now().Before(end); {
		st := r.runner.Stats()
		done := int(st.Executed)
		for _, n := range st.Dropped {
			done += int(n)
		}
		all := int(r.source.seen.Load()) >= decisions && int(st.Decisions) >= decisions
		if all && done >= int(st.Drawn) && st.Emitted >= st.Executed {
			tick(1, 1)
			return nil
		}
		tick(done, max(done+1, int(st.Drawn)))
		retry.Pause(ctx, liveRetry)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	tick(1, 1)
	return nil
}

// judgeLive gives the verdict of each link from the tables.
func (d *liveDemo) judgeLive(ctx context.Context) error {
	if err := errors.Join(d.catchUp(ctx), d.stages.load.Flush(ctx)); err != nil {
		return err
	}
	for i, w := range d.links {
		d.note("verdicts", i, len(d.links))
		r, err := verdict.Judge(ctx, d.backend.Conn, verdict.Scope{Link: w.Link}, d.window, verdict.Options{
			Epochs: []verdict.Epoch{{Plan: d.plan}}, Now: time.Now(),
		})
		if err != nil {
			return err
		}
		if err := verdict.Write(ctx, d.backend.Conn, r); err != nil {
			return err
		}
		d.verdicts = append(d.verdicts, r)
	}
	d.note("verdicts", len(d.links), len(d.links))
	return nil
}

func (d *liveDemo) fitLive(ctx context.Context) error {
	d.note("calibrate", 0, 1)
	p, err := d.settings.publisher(d.backend.Conn)
	if err != nil {
		return err
	}
	d.fitted, err = d.settings.calibrate(ctx, d.backend.Conn, p, CalibrateOptions{Stretches: []Stretch{{
		From: d.window.From, Until: d.window.Until,
		Filter: read.Filter{Policies: []string{PolicyFetchAll}, Services: []string{liveService}},
	}}})
	d.note("calibrate", 1, 1)
	return err
}
