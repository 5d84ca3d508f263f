package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
)

// DemoOptions is one run of the whole loop.
type DemoOptions struct {
	Requests int    // of the trace, both halves together; 0: all
	Seed     uint64 // of arrivals and noise
	Report   string // file; empty: report.html in the directory
	Progress Progress
}

// Shares of a demo: bounds large enough for an interval in minutes of traffic.
const (
	demoExplore = 0.05            // of decisions that take another candidate
	demoShare   = 0.10            // of production's cost that replays may cost
	demoRate    = 0.16            // of decisions of which a path not taken is run
	demoControl = 0.05            // of decisions of which the path taken is run again
	demoBatch   = 2 * time.Second // legs drawn within it share noise; many batches in minutes of traffic
	stepSeconds = 5.0             // between stops of a run in lockstep
)

// Where the runs of a demo lie after its base time: none overlaps another, so that
// no window mixes two.
var (
	mainOffset = map[string]time.Duration{ScenarioBusy: 0, ScenarioCalm: 10 * time.Minute}
	armsOffset = map[string]time.Duration{ScenarioBusy: 55 * time.Minute, ScenarioCalm: 65 * time.Minute}
)

// demo is a run of the whole loop under way.
type demo struct {
	DemoOptions
	settings *Settings
	log      *slog.Logger
	dir      *Dir
	backend  *Backend
	process  *process
	stages   *allStages
	at       Endpoints
	world    world
	began    time.Time
	run      string // names the run, and its draws: the same seed gives the same demo

	mains    []*mainRun
	fitted   *Calibrated
	arms     []armResult
	verdicts []*verdict.Result
}

// Demo runs everything once: traffic of a simulated fleet through the whole
// pipeline, replays, the verdict, a fit, the arms, and the report.
func Demo(ctx context.Context, s *Settings, o DemoOptions, log *slog.Logger) (result *DemoResult, err error) {
	d := &demo{DemoOptions: o, settings: demoSettings(s), log: log, began: time.Now(), run: fmt.Sprintf("demo-%d", o.Seed)}
	if d.world, err = loadWorld(o.Requests); err != nil {
		return nil, err
	}
	if d.dir, err = OpenDir(s.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.dir.Close()) }()
	if err := d.claim(); err != nil {
		return nil, err
	}
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
	d.note("start the engines", 1, 1)
	return d.steps(d.process.ctx)
}

// claim keeps the runs of other demos out of the directory: they lie at the same
// times, and every number would be of both.
func (d *demo) claim() error {
	flags := fmt.Sprintf("--seed %d --requests %d", d.Seed, d.Requests)
	if held := d.dir.State.Demo; held != "" && held != flags {
		return fmt.Errorf("directory %s holds the demo of %s, with which this one would be mixed: choose another with --dir, or remove it", d.settings.Dir, held)
	}
	d.dir.State.Demo = flags
	return d.dir.Save()
}

// demoSettings is what a demo needs otherwise than a production: ports that
// disturb nobody, and budgets for minutes of traffic.
func demoSettings(in *Settings) *Settings {
	s := *in
	s.Replay.Share, s.Replay.Rate, s.Replay.Control = demoShare, demoRate, demoControl
	s.Replay.Deadline = 0
	s.Page.Address = ""                                                     // it ends with a report
	s.TLS, s.Tokens, s.Sender = DefaultSettings().TLS, "", SenderSettings{} // it talks to itself
	return &s
}

func (d *demo) start() (err error) {
	s, st := d.settings, &d.dir.State
	s.Collect.GRPC, s.Collect.HTTP, s.Serve.Address = orFree(st.GRPCAddr), orFree(st.HTTPAddr), orFree(st.ServeAddr)
	s.Serve.PriceEvery = 0 // prices follow simulated time
	if d.stages, d.at, err = d.process.startAll(d.dir, d.backend, s); err != nil {
		return err
	}
	st.GRPCAddr, st.HTTPAddr, st.ServeAddr = d.at.GRPC, d.at.HTTP, d.at.Coefficients
	salt := sha256.Sum256([]byte(d.run))
	st.ReplaySalt, st.ReplayRate, st.ReplayControl = hex.EncodeToString(salt[:]), demoRate, demoControl
	return d.dir.Save()
}

// orFree is the address that the directory remembers, or any free one.
func orFree(addr string) string {
	if addr == "" {
		return "127.0.0.1:0"
	}
	return addr
}

func (d *demo) steps(ctx context.Context) (*DemoResult, error) {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"busy link", func(ctx context.Context) error { return d.main(ctx, ScenarioBusy) }},
		{"calm link", func(ctx context.Context) error { return d.main(ctx, ScenarioCalm) }},
		{"verdicts", d.judge},
		{"calibrate", d.calibrate},
		{"arms", d.compare},
	} {
		if err := step.do(ctx); err != nil {
			return nil, d.explain(step.name, err)
		}
	}
	return d.report(ctx)
}

// explain says which stage failed, and prefers a failure of the engines beneath
// it, of which the stage's own is only a consequence.
func (d *demo) explain(stage string, err error) error {
	if cause := context.Cause(d.process.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return fmt.Errorf("demo, %s: %w", stage, err)
}

func (d *demo) note(stage string, done, total int) {
	if d.Progress != nil {
		d.Progress(stage, done, total)
	}
}

func (d *demo) ticker(stage string) func(done, total int) {
	return func(done, total int) { d.note(stage, done, total) }
}

// exploration is that of a run: the demo's share, and coins of its own.
func exploration(seed uint64) fleet.Exploration {
	return fleet.Exploration{Share: demoExplore, Salt: explorationSalt ^ seed}
}

// catchUp waits until everything that was sent is in the tables.
func (d *demo) catchUp(ctx context.Context) error { return d.stages.load.catchUp(ctx) }

// cluster is the broker's.
func (d *demo) cluster() kafka.Cluster { return d.backend.Cluster }
