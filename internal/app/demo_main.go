package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/client"
	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
	"github.com/kvwhatif/kvwhatif/schema"
)

// mainRun is a scenario under the default policy, with replays.
type mainRun struct {
	scenario string
	link     string
	window   verdict.Window
	traffic  *traffic
	plan     *sample.Plan
	replays  replay.Stats
	truth    []fleet.Truth
	warm     *fleet.Snapshot // caches at the end: where every arm starts
}

// main runs the first half of the trace as schedulers ship: fetch every valid
// prefix, with a small logged exploration.
func (d *demo) main(ctx context.Context, scenario string) error {
	m, err := d.newMain(scenario)
	if err != nil {
		return err
	}
	emitter, err := NewEmitter(ctx, SenderSettings{}, d.at.GRPC, m.traffic.service())
	if err != nil {
		return err
	}
	r, err := d.newReplay(ctx, m, emitter)
	if err != nil {
		return err
	}
	run := &lockstep{
		traffic: m.traffic, emitter: emitter, every: stepSeconds, replay: r,
		arrived: d.catchUp, tick: d.ticker("fetch every prefix, " + scenario),
	}
	err = errors.Join(run.run(ctx), r.follower.close(), emitter.Close(context.WithoutCancel(ctx)))
	if err != nil {
		return err
	}
	m.replays = r.runner.Stats()
	if t := m.replays.OldestWait; t > 0 { // what waits for budget never ran
		m.window.Until = time.Unix(0, t).UTC()
	}
	m.warm = m.traffic.sim.Snapshot()
	m.truth, err = m.traffic.sim.Truth(fleet.Plan{ExternalEvery: 20, Horizon: 60})
	d.mains = append(d.mains, m)
	return err
}

func (d *demo) newMain(scenario string) (*mainRun, error) {
	cfg, err := d.world.config(scenario, PolicyFetchAll, d.Seed)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{Fallback: defaultFallback(), DecodeWeight: decodeWeight})
	if err != nil {
		return nil, err
	}
	first, _ := d.world.halves()
	t, err := newTraffic(trafficSpec{
		name:   identity{run: d.run, scenario: scenario, policy: PolicyFetchAll, seed: d.Seed},
		decide: PolicyFetchAll, fleet: cfg, requests: first,
		base: d.dir.State.BaseTime.Add(mainOffset[scenario]), explore: exploration(d.Seed),
	}, newCoordinator(c))
	if err != nil {
		return nil, err
	}
	m := &mainRun{scenario: scenario, link: cfg.Link.Name, traffic: t}
	m.window = verdict.Window{From: t.base, Until: t.instant(t.sim.End()).Add(time.Second)}
	return m, nil
}

func (d *demo) newReplay(ctx context.Context, m *mainRun, emitter *Emitter) (*simReplay, error) {
	salt, err := hex.DecodeString(d.dir.State.ReplaySalt)
	if err != nil {
		return nil, fmt.Errorf("replay salt in %s: %w", d.dir.Join(stateFile), err)
	}
	plan, err := d.settings.Replay.plan(salt)
	if err != nil {
		return nil, err
	}
	m.plan = plan
	runner, err := replay.New(replay.Config{
		Batch: demoBatch, Plan: m.plan, Limits: demoLimits(d.settings.Replay), Emit: emitReplay(emitter.Tracer()), Logger: d.log,
	}, replay.NewMemoryStore())
	if err != nil {
		return nil, err
	}
	f, err := newFollower(ctx, d.cluster(), schema.TopicParts)
	if err != nil {
		return nil, err
	}
	return &simReplay{runner: runner, follower: f, traffic: m.traffic, running: map[uint64]execute.Leg{}}, nil
}

// demoLimits lets the workers share one budget, with a burst of the largest legs:
// in minutes of traffic a worker alone earns less than one leg costs.
func demoLimits(s ReplaySettings) budget.Limits {
	l := s.limits()
	l.Pool, l.GPUBurst, l.ByteBurst = true, 20, 32<<30
	return l
}

// judge gives the verdict of each link, and writes it into the tables.
func (d *demo) judge(ctx context.Context) error {
	if err := d.stages.load.Flush(ctx); err != nil {
		return err
	}
	for i, m := range d.mains {
		d.note("verdicts", i, len(d.mains))
		r, err := verdict.Judge(ctx, d.backend.Conn, verdict.Scope{Link: m.link}, m.window, verdict.Options{
			Epochs: []verdict.Epoch{{Plan: m.plan}}, Now: time.Now(),
		})
		if err != nil {
			return err
		}
		if err := verdict.Write(ctx, d.backend.Conn, r); err != nil {
			return err
		}
		d.verdicts = append(d.verdicts, r)
	}
	d.note("verdicts", len(d.mains), len(d.mains))
	return nil
}
