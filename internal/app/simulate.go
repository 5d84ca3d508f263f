package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/client"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
)

// SimulateOptions is one run of the fleet simulator.
type SimulateOptions struct {
	Scenario     string
	Policy       string
	Requests     int       // of the trace; 0: all
	Seed         uint64    // of arrivals and noise
	Explore      float64   // share of decisions that take another candidate
	OTLP         string    // host:port of a collector; empty: no spans are sent
	Legs         string    // host:port where replay legs are taken; empty: nowhere
	Pace         float64   // simulated seconds a second; 0: as fast as the machine goes
	Coefficients string    // URL of the coefficient server; empty: the built-in prior decides
	PublicKey    string    // PEM file of the key that signs the documents
	RunID        string    // the same again gives the same spans; empty: a new one
	Base         time.Time // of simulated second 0; zero: so that the run ends now
	Sender       SenderSettings
	Progress     Progress
}

// Progress is told how far a stage of the work has come; done == total ends it.
type Progress func(stage string, done, total int)

// Simulation is what a run came to. Seconds.
type Simulation struct {
	Scenario string         `json:"scenario"`
	Policy   string         `json:"policy"`
	Seed     uint64         `json:"seed"`
	RunID    string         `json:"run_id"`
	Requests int            `json:"requests"`
	Paths    map[string]int `json:"paths"`
	Mean     float64        `json:"mean_ttft_seconds"`
	P50      float64        `json:"p50_ttft_seconds"`
	P95      float64        `json:"p95_ttft_seconds"`
	P99      float64        `json:"p99_ttft_seconds"`
	Eligible float64        `json:"eligible_link_load"` // if every fetchable prefix were fetched
	Offered  float64        `json:"offered_link_load"`  // as decided
	GPU      float64        `json:"gpu_load"`
	Kappa    float64        `json:"kappa"` // recompute time over lone wire time
}

// explorationSalt keeps the coins of exploration apart from every other draw.
const explorationSalt = 0x6b7677686174

// Simulate runs the fleet simulator with a coordinator in it.
func Simulate(ctx context.Context, o SimulateOptions, log *slog.Logger) (*Simulation, error) {
	w, err := loadWorld(o.Requests)
	if err != nil {
		return nil, err
	}
	fleetConfig, err := w.config(o.Scenario, o.Policy, o.Seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := startClient(ctx, o, log)
	if err != nil {
		return nil, err
	}
	if o.RunID == "" {
		o.RunID = newRunID()
	}
	t, err := newTraffic(trafficSpec{
		name: identity{run: o.RunID, scenario: o.Scenario, policy: o.Policy, seed: o.Seed}, decide: o.Policy,
		fleet: fleetConfig, requests: w.requests, base: o.Base,
		explore: fleet.Exploration{Share: o.Explore, Salt: explorationSalt ^ o.Seed},
	}, newCoordinator(c))
	if err != nil {
		return nil, err
	}
	if o.Base.IsZero() {
		t.base = time.Now().Add(-t.behind(o.Pace)).UTC()
	}
	if err := t.play(ctx, o, log); err != nil {
		return nil, err
	}
	return t.summary(), nil
}

// behind is how far back simulated second 0 lies, so that no span is in the future:
// a run at the pace of a clock begins now, a faster one ends now.
func (t *traffic) behind(pace float64) time.Duration {
	ahead := 1.0 // share of the run that the clock does not see
	if pace > 0 {
		ahead = max(0, 1-1/pace)
	}
	return time.Duration(ahead * t.sim.End() * float64(time.Second))
}

// startClient follows the coefficient server, where there is one.
func startClient(ctx context.Context, o SimulateOptions, log *slog.Logger) (*client.Client, error) {
	cfg := client.Config{
		Fallback: defaultFallback(), DecodeWeight: decodeWeight, Explore: o.Explore, Salt: explorationSalt ^ o.Seed,
		Instance: "simulate-" + o.Scenario,
		OnError:  func(err error) { log.Warn("coefficients", "error", err) },
	}
	if o.Coefficients != "" {
		keys, err := readPublicKeys(o.PublicKey)
		if err != nil {
			return nil, err
		}
		cfg.URL, cfg.PublicKeys = o.Coefficients, keys
		cfg.CAFile, cfg.CertFile, cfg.KeyFile = o.Sender.CA, o.Sender.Cert, o.Sender.Key
		cfg.Token, cfg.TokenFile = o.Sender.Token, o.Sender.TokenFile
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("coefficient client: %w", err)
	}
	c.Start(ctx)
	return c, nil
}

// play runs the traffic to its end, or until ctx ends where it also takes legs.
func (t *traffic) play(ctx context.Context, o SimulateOptions, log *slog.Logger) (err error) {
	run := &playing{traffic: t, pace: o.Pace, progress: o.Progress, began: time.Now()}
	if o.OTLP != "" {
		if run.emitter, err = NewEmitter(ctx, o.Sender, o.OTLP, t.service()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, run.emitter.Close(context.WithoutCancel(ctx))) }()
	}
	if o.Legs != "" {
		p := newProcess(ctx, "simulate", log)
		run.host = &simHost{executor: newSimExecutor(), traffic: t, running: map[uint64]legRequest{}}
		addr, err := p.serve(o.Legs, execute.Handler(run.host.executor))
		if err != nil {
			return fmt.Errorf("listen for legs: %w: choose another with --legs", err)
		}
		log.Info("taking replay legs", "url", "http://"+addr)
		defer close(run.host.executor.ended)
	}
	return run.loop(ctx)
}

// playing is the loop that owns a simulation.
type playing struct {
	traffic  *traffic
	emitter  *Emitter // nil: no spans
	host     *simHost // nil: no legs
	pace     float64
	progress Progress
	began    time.Time
}

// playStep is how far the loop advances at once, simulated seconds: legs that come
// in one step start together.
const playStep = 0.05

func (p *playing) loop(ctx context.Context) error {
	sim := p.traffic.sim
	for now := 0.0; ; {
		if ctx.Err() != nil {
			return p.interrupted(ctx)
		}
		if p.host != nil {
			p.host.take()
		}
		now += playStep
		step := sim.Advance(now)
		p.traffic.outcomes = append(p.traffic.outcomes, step.Outcomes...)
		if p.emitter != nil {
			p.traffic.emit(ctx, p.emitter.Tracer(), step.Outcomes)
		}
		if p.host != nil {
			p.host.answer(step.Legs)
		}
		if p.progress != nil && len(step.Outcomes) > 0 {
			p.progress("simulate "+p.traffic.name.scenario, len(p.traffic.outcomes), len(p.traffic.requests))
		}
		if sim.Done() && p.host == nil {
			return nil
		}
		p.wait(ctx, now)
	}
}

// interrupted is no failure where the loop only waited for legs.
func (p *playing) interrupted(ctx context.Context) error {
	if p.host != nil && len(p.traffic.outcomes) == len(p.traffic.requests) {
		return nil
	}
	return ctx.Err()
}

// wait keeps to the pace; with nothing left but legs to wait for, that of a clock.
func (p *playing) wait(ctx context.Context, now float64) {
	pace := p.pace
	if pace == 0 {
		if !p.traffic.sim.Done() {
			return
		}
		pace = 1
	}
	ahead := time.Duration(now/pace*float64(time.Second)) - time.Since(p.began)
	if p.pace == 0 {
		ahead = time.Duration(playStep * float64(time.Second))
	}
	if ahead <= 0 {
		return
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// summary says what the run came to.
func (t *traffic) summary() *Simulation {
	load := t.sim.Load()
	s := &Simulation{
		Scenario: t.name.scenario, Policy: t.name.policy, Seed: t.name.seed, RunID: t.name.run,
		Requests: len(t.outcomes), Paths: map[string]int{},
		Eligible: load.Eligible, Offered: load.Offered, GPU: load.GPU, Kappa: load.Kappa,
	}
	ttft := make([]float64, len(t.outcomes))
	for i := range t.outcomes {
		s.Paths[t.outcomes[i].Decision.Path.String()]++
		ttft[i] = t.outcomes[i].Observed.TTFT.V
		s.Mean += ttft[i] / float64(len(ttft))
	}
	slices.Sort(ttft)
	s.P50, s.P95, s.P99 = quantile(ttft, 0.5), quantile(ttft, 0.95), quantile(ttft, 0.99)
	return s
}

// quantile is the q-quantile of sorted values, by the nearest rank; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
