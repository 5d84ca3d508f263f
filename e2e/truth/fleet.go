package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/publicdata"
	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Settings of a run, those of the demo: what an estimate meets there.
const (
	step         = 5.0             // simulated seconds between draws
	replayDelay  = 15.0            // seconds from a decision to its rejected leg
	controlDelay = 0.0             // and from that to its control leg
	batch        = 2 * time.Second // legs drawn within it are one batch
	block        = 5.0             // seconds of a block of time
	explore      = 0.05            // share of decisions that take another candidate
	busySpeedUp  = 26.0
	rate         = 0.16 // of decisions of which a path not taken is run
	control      = 0.05 // of decisions of which the path taken is run again
)

// traffic is the public trace in the simulator's types.
type traffic struct {
	requests []fleet.Request
	ladder   []fleet.Point
}

// load reads the embedded trace, at most limit requests of its first half.
func load(limit int) (traffic, error) {
	rows, err := publicdata.Conversation()
	if err != nil {
		return traffic{}, fmt.Errorf("read the trace: %w", err)
	}
	var t traffic
	for _, r := range rows[:min(limit, len(rows)/2)] {
		t.requests = append(t.requests, fleet.Request{
			At: float64(r.Millis) / 1e3, PromptTokens: r.InputTokens, OutputTokens: r.OutputTokens, Blocks: r.Blocks,
		})
	}
	points, err := publicdata.Series("MCv")
	if err != nil {
		return traffic{}, fmt.Errorf("read the prefill ladder: %w", err)
	}
	for _, r := range points {
		t.ladder = append(t.ladder, fleet.Point{Tokens: r.Tokens, Seconds: r.PrefillMeasured})
	}
	return t, nil
}

// run is one fleet under way, with its replays.
type run struct {
	link     string
	sim      *fleet.Sim
	plan     *sample.Plan
	runner   *replay.Runner
	due      []execute.Leg // by start
	running  map[uint64]execute.Leg
	outcomes []fleet.Outcome
	parts    []schema.Part
	legs     []schema.Part
	fresh    []*schema.Part // since the last draw
}

func newRun(t traffic, link string, seed uint64) (*run, error) {
	cfg := fleet.Busy(seed, t.ladder)
	cfg.SpeedUp = busySpeedUp
	if link == "calm" {
		cfg = fleet.Calm(seed, t.ladder)
	}
	r := &run{link: link, running: map[uint64]execute.Leg{}}
	var err error
	r.sim, err = fleet.New(cfg, t.requests, fleet.FetchAll(fleet.DefaultPredictor(), fleet.Exploration{Share: explore, Salt: seed ^ 0x7472757468}))
	if err != nil {
		return nil, err
	}
	p := sample.DefaultParams()
	p.Rate, p.Control = rate, control
	p.ControlRates = map[string]float64{"recompute": 1, "route": 1}
	salt := sha256.Sum256(fmt.Appendf(nil, "truth/%s/%d", link, seed))
	if r.plan, err = sample.New(p, salt[:]); err != nil {
		return nil, err
	}
	limits := budget.DefaultLimits()
	limits.Share, limits.Pool, limits.GPUBurst, limits.ByteBurst, limits.MaxAgeNanos = 0.1, true, 20, 32<<30, 0
	r.runner, err = replay.New(replay.Config{Batch: batch, Plan: r.plan, Limits: limits, Emit: func(_ context.Context, p schema.Part) error {
		r.legs = append(r.legs, p)
		return nil
	}}, replay.NewMemoryStore())
	return r, err
}

// advanceAll runs the fleet to its end, drawing and replaying on the way.
func (r *run) advanceAll() error {
	for until := step; !r.sim.Done() || len(r.due)+len(r.running) > 0; until += step {
		if until > r.sim.End()+3600 {
			return fmt.Errorf("%s link: the fleet has not come to rest an hour after the last request", r.link)
		}
		if err := r.advance(until); err != nil {
			return err
		}
		if err := r.draw(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) advance(until float64) error {
	for {
		to, starts := until, false
		if len(r.due) > 0 && startOf(&r.due[0]) <= until {
			to, starts = max(r.sim.Now(), startOf(&r.due[0])), true
		}
		if err := r.take(r.sim.Advance(to)); err != nil {
			return err
		}
		if !starts {
			return nil
		}
		leg := r.due[0]
		if err := r.sim.Inject(fleet.Leg{ID: leg.Seed(), PromptTokens: leg.TokensPrompt, Candidate: leg.Candidate}); err != nil {
			return err
		}
		r.running[leg.Seed()], r.due = leg, r.due[1:]
	}
}

// startOf is when a leg runs. The control starts apart from the rejected leg of
// the same decision: both want the same worker, and the second would wait there.
func startOf(l *execute.Leg) float64 {
	at := float64(l.DecidedNanos)/1e9 + replayDelay
	if l.Kind == schema.LegControl {
		at += controlDelay
	}
	return at
}

func nanos(seconds float64) int64 { return int64(seconds * 1e9) }

func (r *run) take(s fleet.Step) error {
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		p := schema.Part{
			Kind: schema.KindContract, Adapter: "kvreuse", Service: "coordinator", RequestID: fmt.Sprint(o.Index),
			StartNanos: nanos(o.At), EndNanos: nanos(o.FirstToken), Decision: o.Decision, Observed: o.Observed,
		}
		binary.BigEndian.PutUint64(p.Trace[8:], uint64(o.Index)+1)
		binary.BigEndian.PutUint64(p.Span[:], uint64(o.Index)+1)
		r.outcomes, r.parts = append(r.outcomes, *o), append(r.parts, p)
		r.fresh = append(r.fresh, &p)
	}
	for i := range s.Legs {
		o := &s.Legs[i]
		leg := r.running[o.Leg.ID]
		delete(r.running, o.Leg.ID)
		result := execute.Result{
			StartNanos: nanos(o.At), EndNanos: nanos(o.FirstToken),
			State:    execute.State{GPUQueue: o.State.GPUQueue, Flows: o.State.Rivals},
			Observed: o.Observed, Cost: execute.Cost{GPUSeconds: o.GPUSeconds, Bytes: float64(o.LinkBytes)},
		}
		if err := r.runner.Finish(context.Background(), nanos(o.FirstToken), leg, result, nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) draw() error {
	slices.SortFunc(r.fresh, func(a, b *schema.Part) int {
		return cmp.Or(cmp.Compare(a.StartNanos, b.StartNanos), cmp.Compare(a.Span.Uint64(), b.Span.Uint64()))
	})
	legs, err := r.runner.Offer(nanos(r.sim.Now()), r.fresh)
	r.fresh = r.fresh[:0]
	r.due = append(r.due, legs...)
	slices.SortStableFunc(r.due, func(a, b execute.Leg) int { return cmp.Compare(startOf(&a), startOf(&b)) })
	return err
}

// until is the end of the window that can be judged: what still waits for budget
// never ran.
func (r *run) until() float64 {
	if t := r.runner.Stats().OldestWait; t > 0 {
		return float64(t) / 1e9
	}
	return math.Inf(1)
}

// input is the window as the estimator sees it.
func (r *run) input() (estimate.Input, error) {
	var in estimate.Input
	until := r.until()
	for i := range r.parts {
		if r.outcomes[i].At < until {
			in.Decisions = append(in.Decisions, replay.DecisionOf(r.plan, &r.parts[i], int64(r.outcomes[i].At/block)))
		}
	}
	for i := range r.legs {
		l, err := replay.LegOf(&r.legs[i])
		if err != nil {
			return in, err
		}
		in.Legs = append(in.Legs, l)
	}
	return in, nil
}

// truths is what every path would have taken, by request, seconds; NaN where it
// had no such candidate.
func (r *run) truths() (map[schema.RowID][estimate.NumPaths]float64, error) {
	truth, err := r.sim.Truth(fleet.Plan{})
	if err != nil {
		return nil, err
	}
	by := make(map[int]*fleet.Truth, len(truth))
	for i := range truth {
		by[truth[i].Index] = &truth[i]
	}
	out := map[schema.RowID][estimate.NumPaths]float64{}
	for i := range r.outcomes {
		var y [estimate.NumPaths]float64
		t := by[r.outcomes[i].Index]
		for b, c := range sample.Alternatives(&r.outcomes[i].Decision) {
			y[b] = math.NaN()
			if c >= 0 {
				y[b] = t.TTFT[c]
			}
		}
		out[r.parts[i].RowID()] = y
	}
	return out, nil
}
