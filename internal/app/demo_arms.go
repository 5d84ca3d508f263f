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
// that their differences are the policies'; none has the noise that was fitted. In the
// tables the second run of an arm is a policy of its own, such as fitted-2.
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

// Seeds of the arms' noise, after the demo's own; each run has the next one.
const (
	armSeed = 1_000_003
	aaSeed  = 2_000_003
)

// armRuns is how often each arm runs, on noise of its own each time. The interval
// of a difference is from how runs differ: what happens within one run of a loaded
// link hangs together, and blocks of its time understate that.
const armRuns = 4

// armResult is what an arm came to on one link, over its runs.
type armResult struct {
	arm
	link string
	mean []float64 // TTFT by run, seconds
	ttft []float64 // of all requests of all runs, seconds, rising
	gain estimate.Difference
}

// armStep is how often the fitted arm stops for new prices, simulated seconds.
var armStep = map[string]float64{ScenarioBusy: 2.5, ScenarioCalm: 60}

// compare runs every arm on the second half of the trace, from the caches that the
// first half left.
func (d *demo) compare(ctx context.Context) error {
	for _, m := range d.mains {
		base := len(d.arms)
		for _, a := range arms {
			r := armResult{arm: a, link: m.link}
			for run := range armRuns {
				t, err := d.runArm(ctx, m, a, run)
				if err != nil {
					return fmt.Errorf("policy %s on the %s link: %w", a.name, m.scenario, err)
				}
				r.add(t)
			}
			slices.Sort(r.ttft)
			d.arms = append(d.arms, r)
			d.arms[len(d.arms)-1].gain = r.against(&d.arms[base])
		}
	}
	return nil
}

// add takes in one run.
func (r *armResult) add(t *traffic) {
	sum := 0.0
	for i := range t.outcomes {
		r.ttft = append(r.ttft, t.outcomes[i].Observed.TTFT.V)
		sum += t.outcomes[i].Observed.TTFT.V
	}
	r.mean = append(r.mean, sum/float64(len(t.outcomes)))
}

// against is how much faster the arm's requests were than the same ones under the
// default, run by run.
func (r *armResult) against(base *armResult) estimate.Difference {
	differences := make([]float64, len(r.mean))
	for i := range r.mean {
		differences[i] = base.mean[i] - r.mean[i]
	}
	return estimate.AcrossRuns(differences, len(r.ttft))
}

// runArm runs an arm once. Its first run, and every run that is priced by what the
// tables say of it, goes through the whole pipeline.
func (d *demo) runArm(ctx context.Context, m *mainRun, a arm, run int) (*traffic, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := d.armClient(ctx, a)
	if err != nil {
		return nil, err
	}
	t, err := d.armTraffic(m, a, run, c)
	if err != nil {
		return nil, err
	}
	step := &lockstep{traffic: t, every: math.Inf(1), tick: d.armTicker(m, a, run)}
	if a.decide == PolicyFitted {
		pricer, err := d.newPricer(t)
		if err != nil {
			return nil, err
		}
		step.every, step.arrived = armStep[m.scenario], d.catchUp
		step.stopped = func(ctx context.Context, now float64) error { return d.reprice(ctx, pricer, c, t.instant(now)) }
	}
	if run > 0 && a.decide != PolicyFitted {
		return t, step.run(ctx)
	}
	if step.emitter, err = NewEmitter(ctx, SenderSettings{}, d.at.GRPC, t.service()); err != nil {
		return nil, err
	}
	return t, errors.Join(step.run(ctx), step.emitter.Close(context.WithoutCancel(ctx)))
}

// armTicker counts the runs of an arm as one stage.
func (d *demo) armTicker(m *mainRun, a arm, run int) func(done, total int) {
	return func(done, total int) {
		d.note(a.name+", "+m.scenario, run*total+done, armRuns*total)
	}
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

func (d *demo) armTraffic(m *mainRun, a arm, run int, c *client.Client) (*traffic, error) {
	seed, name := d.Seed+armSeed+uint64(run), a.name
	if a.aa {
		seed += aaSeed
	}
	if run > 0 {
		name = fmt.Sprintf("%s-%d", a.name, run+1)
	}
	cfg, err := d.world.config(m.scenario, name, seed)
	if err != nil {
		return nil, err
	}
	cfg.Warm = m.warm
	_, second := d.world.halves()
	return newTraffic(trafficSpec{
		name:   identity{run: d.run, scenario: m.scenario, policy: name, seed: seed},
		decide: a.decide, fleet: cfg, requests: second, first: len(d.world.requests) / 2,
		base: d.dir.State.BaseTime.Add(armsOffset[m.scenario]), explore: fleet.Exploration{},
	}, newCoordinator(c))
}

// newPricer is a second server over the same store that prices links by this run's
// own demand, in simulated time.
func (d *demo) newPricer(t *traffic) (*serve.Server, error) {
	s := *d.settings
	s.Serve.PriceEvery = DefaultSettings().Serve.PriceEvery
	s.Serve.Coordinators = fleetCoordinators
	return newServer(d.backend.Conn, &s, read.Filter{Policies: []string{t.name.policy}, Services: []string{t.service()}}, d.log)
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
