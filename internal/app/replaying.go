package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// replayDelay is how long after its decision a leg starts in a lockstep run,
// seconds: longer than a step and a first token, so that legs keep the spacing of
// their decisions instead of starting together.
const replayDelay = 15.0

// legGap is how long after the first leg of a decision the second starts, seconds:
// longer than a first token, so that neither waits for the other. Which is first is
// by chance, so that both kinds meet the same load.
const legGap = 5.0

// simReplay drives a replay runner inside a simulation: what Kafka delivered is
// drawn from, and legs run in the same fleet, later, as low-priority traffic.
type simReplay struct {
	runner   *replay.Runner
	follower *follower
	traffic  *traffic
	due      []execute.Leg // by start
	running  map[uint64]execute.Leg
}

// poll draws from everything that Kafka has accepted so far.
func (r *simReplay) poll(ctx context.Context) error {
	parts, err := r.follower.more(ctx)
	if err != nil {
		return err
	}
	mine := slices.DeleteFunc(parts, func(p *schema.Part) bool { return !r.owns(p) })
	slices.SortFunc(mine, func(a, b *schema.Part) int { // Kafka's order is not the fleet's
		return cmp.Or(cmp.Compare(a.StartNanos, b.StartNanos), cmp.Compare(a.Span.Uint64(), b.Span.Uint64()))
	})
	legs, err := r.runner.Offer(r.traffic.nanos(r.traffic.sim.Now()), mine)
	r.due = append(r.due, legs...)
	slices.SortStableFunc(r.due, func(a, b execute.Leg) int { return cmp.Compare(r.start(&a), r.start(&b)) })
	return err
}

// owns says that a part is a decision of this run, not an earlier one in the
// same directory.
func (r *simReplay) owns(p *schema.Part) bool {
	return p.Kind == schema.KindContract && p.Service == r.traffic.service() && p.Decision.Policy == r.traffic.name.policy
}

// start is when a leg runs, simulated seconds.
func (r *simReplay) start(leg *execute.Leg) float64 {
	at := float64(leg.DecidedNanos-r.traffic.nanos(0))/1e9 + replayDelay
	if controlFirst := xxhash.Sum64(append(leg.Of[:], leg.OfSpan[:]...))%2 == 0; controlFirst != (leg.Kind == schema.LegControl) {
		at += legGap
	}
	return at
}

// advance brings the fleet to until, starting the legs that are due on the way.
func (r *simReplay) advance(ctx context.Context, until float64) ([]fleet.Outcome, error) {
	var out []fleet.Outcome
	for {
		to, starts := until, false
		if len(r.due) > 0 && r.start(&r.due[0]) <= until {
			to, starts = max(r.traffic.sim.Now(), r.start(&r.due[0])), true
		}
		step := r.traffic.sim.Advance(to)
		out = append(out, step.Outcomes...)
		if err := r.finish(ctx, step.Legs); err != nil {
			return out, err
		}
		if !starts {
			return out, nil
		}
		if err := r.inject(ctx, r.due[0]); err != nil {
			return out, err
		}
		r.due = r.due[1:]
	}
}

func (r *simReplay) inject(ctx context.Context, leg execute.Leg) error {
	err := r.traffic.sim.Inject(fleet.Leg{ID: leg.Seed(), PromptTokens: leg.TokensPrompt, Candidate: leg.Candidate})
	if err != nil {
		return r.runner.Finish(ctx, r.traffic.nanos(r.traffic.sim.Now()), leg, execute.Result{}, err)
	}
	r.running[leg.Seed()] = leg
	return nil
}

func (r *simReplay) finish(ctx context.Context, legs []fleet.LegOutcome) error {
	for i := range legs {
		o := &legs[i]
		leg, ok := r.running[o.Leg.ID]
		if !ok {
			return fmt.Errorf("the simulator finished leg %x, which was not running", o.Leg.ID)
		}
		delete(r.running, o.Leg.ID)
		if err := r.runner.Finish(ctx, r.traffic.nanos(o.FirstToken), leg, r.traffic.result(o), nil); err != nil {
			return err
		}
	}
	return nil
}

// idle says that no leg is due or running.
func (r *simReplay) idle() bool { return len(r.due) == 0 && len(r.running) == 0 }

// result is a simulated leg in the executor's terms.
func (t *traffic) result(o *fleet.LegOutcome) execute.Result {
	return execute.Result{
		StartNanos: t.nanos(o.At), EndNanos: t.nanos(o.FirstToken),
		State:    execute.State{GPUQueue: o.State.GPUQueue, Flows: o.State.Rivals},
		Observed: o.Observed, Cost: execute.Cost{GPUSeconds: o.GPUSeconds, Bytes: float64(o.LinkBytes)},
	}
}

// emitReplay sends a result as a span of the replayer's own.
func emitReplay(tracer trace.Tracer) replay.Emit {
	return func(ctx context.Context, p schema.Part) error {
		kvspan.Write(withIDs(ctx, p.Trace, p.Span), tracer, &p)
		return nil
	}
}
