package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/client"
	"github.com/kvwhatif/kvwhatif/calibrate/read"
	"github.com/kvwhatif/kvwhatif/calibrate/serve"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
)

// arm is one policy of the comparison. All but the A/A arm have the same noise, so
// that their differences are the policies'; none has the noise that was fitted.
type arm struct {
	name   string // policy as written on the spans
	note   string // for people
	decide string
	aa     bool // the default once more, on other noise
}

var arms = []arm{
	{name: "default", note: "the default: fetches every valid prefix", decide: PolicyFetchAll},
	{name: "default-again", note: "the same on other noise (A/A)", decide: PolicyFetchAll, aa: true},
	{name: "never-fetch", note: "recomputes what is not in this GPU", decide: PolicyNever},
	{name: "seed-rule", note: "fetches unless that loses for this request alone", decide: PolicySeedRule},
	{name: "fitted", note: "by the published coefficients and link prices", decide: PolicyFitted},
}

// Seeds of the arms' noise, after the demo's own.
const (
	armSeed = 1_000_003
	aaSeed  = 2_000_003
)

// armRun is what an arm came to on one link.
type armRun struct {
	arm
	scenario, link string
	summary        *Simulation
	ttft           []float64 // seconds, by request
	block          []int     // of time, by request
	gain           estimate.Difference
	revisions      int64 // of coefficient documents that decided
}

// armStep is how often the fitted arm stops for new prices, simulated seconds.
var armStep = map[string]float64{ScenarioBusy: 2.5, ScenarioCalm: 20}

// blockSeconds is the length of a block of time within which requests share what
// happened to the link.
var blockSeconds = map[string]float64{ScenarioBusy: 5, ScenarioCalm: 60}

// compare runs every arm on the second half of the trace, from the caches that the
// first half left.
func (d *demo) compare(ctx context.Context) error {
	for _, m := range d.mains {
		var base *armRun
		for _, a := range arms {
			r, err := d.runArm(ctx, m, a)
			if err != nil {
				return fmt.Errorf("policy %s on the %s link: %w", a.name, m.scenario, err)
			}
			if base == nil {
				base = r
			} else {
				r.gain = estimate.Paired(r.ttft, base.ttft, r.block)
			}
			d.arms = append(d.arms, *r)
		}
	}
	return nil
}

func (d *demo) runArm(ctx context.Context, m *mainRun, a arm) (*armRun, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := d.armClient(ctx, a)
	if err != nil {
		return nil, err
	}
	t, err := d.armTraffic(m, a, c)
	if err != nil {
		return nil, err
	}
	emitter, err := NewEmitter(ctx, d.at.GRPC, t.service())
	if err != nil {
		return nil, err
	}
	run := &lockstep{traffic: t, emitter: emitter, every: math.Inf(1), tick: d.ticker(a.name + ", " + m.scenario)}
	if a.decide == PolicyFitted {
		pricer, err := d.newPricer(a, t)
		if err != nil {
			return nil, err
		}
		run.every, run.arrived = armStep[m.scenario], d.catchUp
		run.stopped = func(ctx context.Context, now float64) error { return d.reprice(ctx, pricer, c, t.instant(now)) }
	}
	if err := errors.Join(run.run(ctx), emitter.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	return d.armResult(m, a, t), nil
}

// armClient follows the coefficient server where the arm decides by it, and waits
// for its first document.
func (d *demo) armClient(ctx context.Context, a arm) (*client.Client, error) {
	cfg := client.Config{Fallback: defaultFallback(), DecodeWeight: decodeWeight}
	if a.decide == PolicyFitted {
		keys, err := d.publicKeys()
		if err != nil {
			return nil, err
		}
		cfg.URL, cfg.PublicKeys, cfg.Instance = "http://"+d.at.Coefficients, keys, "demo-coordinator"
		cfg.OnError = func(err error) { d.log.Warn("coefficients", "error", err) }
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	c.Start(ctx)
	if a.decide == PolicyFitted && d.fitted.Revision > 0 {
		if err := d.stages.server.Poll(ctx); err != nil {
			return nil, err
		}
		return c, d.follow(ctx, c)
	}
	return c, nil
}

func (d *demo) armTraffic(m *mainRun, a arm, c *client.Client) (*traffic, error) {
	seed := d.Seed + armSeed
	if a.aa {
		seed = d.Seed + aaSeed
	}
	cfg, err := d.world.config(m.scenario, a.name, seed)
	if err != nil {
		return nil, err
	}
	cfg.Warm = m.warm
	_, second := d.world.halves()
	return newTraffic(trafficSpec{
		name:   identity{run: d.run, scenario: m.scenario, policy: a.name, seed: seed},
		decide: a.decide, fleet: cfg, requests: second, first: len(d.world.requests) / 2,
		base: d.dir.State.BaseTime.Add(armsOffset[m.scenario]), explore: fleet.Exploration{},
	}, newCoordinator(c))
}

// newPricer is a second server over the same store that prices links by this arm's
// own demand, in simulated time.
func (d *demo) newPricer(a arm, t *traffic) (*serve.Server, error) {
	s := *d.settings
	s.Serve.PriceEvery = DefaultSettings().Serve.PriceEvery
	s.Serve.Coordinators = fleetCoordinators
	return newServer(d.backend.Conn, &s, read.Filter{Policies: []string{a.name}, Services: []string{t.service()}}, d.log)
}

// fleetCoordinators is how many coordinators share the simulated links.
const fleetCoordinators = 4

// reprice refreshes the prices by what the tables say at this simulated time, and
// waits until the coordinator decides by them.
func (d *demo) reprice(ctx context.Context, pricer *serve.Server, c *client.Client, now time.Time) error {
	if d.fitted.Revision == 0 { // the fallback decides, as it would in a fleet
		return nil
	}
	if err := pricer.Poll(ctx); err != nil {
		return err
	}
	if _, err := pricer.RefreshPrices(ctx, now); err != nil {
		return err
	}
	if err := d.stages.server.Poll(ctx); err != nil {
		return err
	}
	return d.follow(ctx, c)
}

// follow waits until the client decides by the document that the server holds.
func (d *demo) follow(ctx context.Context, c *client.Client) error {
	held, ok := d.stages.server.Held()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for c.Snapshot().Revision < held.Document.Revision {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the coefficient client did not take up revision %d: %w", held.Document.Revision, errors.Join(ctx.Err(), c.Snapshot().Err))
		}
	}
	return nil
}

func (d *demo) armResult(m *mainRun, a arm, t *traffic) *armRun {
	r := &armRun{
		arm: a, scenario: m.scenario, link: m.link, summary: t.summary(),
		ttft: make([]float64, len(t.requests)), block: make([]int, len(t.requests)),
	}
	speed := 1.0
	if m.scenario == ScenarioBusy {
		speed = busySpeedUp
	}
	for i := range t.outcomes {
		o := &t.outcomes[i]
		r.ttft[o.Index] = o.Observed.TTFT.V
		r.block[o.Index] = int(t.requests[o.Index].At / speed / blockSeconds[m.scenario])
	}
	seen := slices.Clone(t.revision)
	slices.Sort(seen)
	r.revisions = int64(len(slices.Compact(seen)))
	return r
}
