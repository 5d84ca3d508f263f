// Package harm measures, in the simulated fleet, what replays cost production: the
// same traffic with the same noise runs once without replays and once with them,
// and the p99 TTFT of production is compared, seed by seed.
package harm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Settings of a measurement.
type Settings struct {
	Fleet    func(seed uint64) fleet.Config
	Requests []fleet.Request
	Share    float64     // of production's cost that replays may take
	Explore  float64     // share of decisions that take another candidate
	Rate     float64     // of decisions of which a path not taken is drawn: high enough that the budget is what holds
	Control  float64     // of decisions whose own path is drawn
	Pool     bool        // one budget for all workers, so that all of it is spent
	Idle     budget.Idle // gate that legs wait at
}

// Pair is one seed's two runs. TTFT in seconds, of production's requests alone.
type Pair struct {
	Seed                 uint64
	Without, With        float64 // p99
	MeanWithout, Mean    float64
	Legs                 int
	GPUShare, BytesShare float64 // spent by legs, of production's
}

// Ratio is the p99 with replays over that without.
func (p Pair) Ratio() float64 { return p.With / p.Without }

// Summary is the ratio over seeds.
type Summary struct {
	Pairs  int
	Ratio  float64 // geometric mean
	Upper  float64 // one-sided 95 % bound of it, by Student's t on the logarithms
	Worst  float64 // of a single seed
	Share  float64 // mean share of production's GPU-seconds that legs took
	Legs   int     // in all
	Better bool    // Upper is at most the limit that Summarize was given
}

// Measure runs the seeds one after the other; note, where it is not nil, is told of
// each.
func Measure(s Settings, seeds []uint64, note func(Pair)) ([]Pair, error) {
	var out []Pair
	for _, seed := range seeds {
		p := Pair{Seed: seed}
		without, err := s.run(seed, nil)
		if err != nil {
			return nil, err
		}
		legs, err := s.newLegs(seed)
		if err != nil {
			return nil, err
		}
		with, err := s.run(seed, legs)
		if err != nil {
			return nil, err
		}
		p.Without, p.MeanWithout = quantile(without, 0.99), stat.Mean(without, nil)
		p.With, p.Mean = quantile(with, 0.99), stat.Mean(with, nil)
		st := legs.runner.Stats()
		p.Legs, p.GPUShare = int(st.Executed), st.Legs.GPUSeconds/st.Production.GPUSeconds
		p.BytesShare = st.Legs.Bytes / math.Max(1, st.Production.Bytes)
		out = append(out, p)
		if note != nil {
			note(p)
		}
	}
	return out, nil
}

// Summarize gives the ratio with its bound; limit is what it must not exceed.
func Summarize(pairs []Pair, limit float64) (Summary, error) {
	if len(pairs) < 2 {
		return Summary{}, errors.New("harm: a bound needs two seeds or more")
	}
	logs := make([]float64, len(pairs))
	out := Summary{Pairs: len(pairs)}
	for i, p := range pairs {
		logs[i] = math.Log(p.Ratio())
		out.Worst = max(out.Worst, p.Ratio())
		out.Share += p.GPUShare / float64(len(pairs))
		out.Legs += p.Legs
	}
	mean, sd := stat.MeanStdDev(logs, nil)
	n := float64(len(logs))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.95)
	out.Ratio, out.Upper = math.Exp(mean), math.Exp(mean+t*sd/math.Sqrt(n))
	out.Better = out.Upper <= limit
	return out, nil
}

func quantile(x []float64, q float64) float64 {
	slices.Sort(x)
	return x[int(math.Ceil(q*float64(len(x))))-1]
}

const (
	step  = 5.0  // simulated seconds between draws
	delay = 15.0 // seconds from a decision to its legs, at least
	again = 1.0  // seconds until a shut gate is tried again
)

// legs are the replays of a run.
type legs struct {
	runner  *replay.Runner
	due     []waiting // by start
	running map[uint64]execute.Leg
	gate    budget.Idle
}

// waiting is a leg and when it is to start, simulated seconds.
type waiting struct {
	execute.Leg
	start float64
}

func (s Settings) newLegs(seed uint64) (*legs, error) {
	params := sample.DefaultParams()
	params.Rate, params.Control, params.ControlRates = s.Rate, s.Control, map[string]float64{"recompute": 1, "route": 1}
	plan, err := sample.New(params, fmt.Appendf(nil, "harm of seed %020d", seed))
	if err != nil {
		return nil, err
	}
	limits := budget.DefaultLimits()
	limits.Share, limits.Pool, limits.MaxAgeNanos = s.Share, s.Pool, 0
	if s.Pool {
		limits.GPUBurst, limits.ByteBurst = 20, 32<<30
	}
	l := &legs{running: map[uint64]execute.Leg{}, gate: s.Idle}
	l.runner, err = replay.New(replay.Config{
		Plan: plan, Limits: limits, Emit: func(context.Context, schema.Part) error { return nil },
	}, replay.NewMemoryStore())
	return l, err
}

// run gives production's TTFT; l is nil for no replays.
func (s Settings) run(seed uint64, l *legs) ([]float64, error) {
	sim, err := fleet.New(s.Fleet(seed), s.Requests, fleet.FetchAll(fleet.DefaultPredictor(), fleet.Exploration{Share: s.Explore, Salt: seed ^ 0x6861726d}))
	if err != nil {
		return nil, err
	}
	var ttft []float64
	for until := step; !sim.Done() || (l != nil && len(l.due)+len(l.running) > 0); until += step {
		outcomes, err := l.advance(sim, until)
		if err != nil {
			return nil, err
		}
		for i := range outcomes {
			ttft = append(ttft, outcomes[i].Observed.TTFT.V)
		}
		if err := l.draw(sim, outcomes); err != nil {
			return nil, err
		}
		if until > sim.End()+3600 {
			return nil, errors.New("harm: the fleet has not come to rest an hour after the last request")
		}
	}
	return ttft, nil
}

// advance brings the fleet to until, starting legs on the way.
func (l *legs) advance(sim *fleet.Sim, until float64) (out []fleet.Outcome, err error) {
	for {
		to, starts := until, l != nil && len(l.due) > 0 && l.due[0].start <= until
		if starts {
			to = max(sim.Now(), l.due[0].start)
		}
		s := sim.Advance(to)
		out = append(out, s.Outcomes...)
		for i := range s.Legs {
			if err := l.finish(&s.Legs[i]); err != nil {
				return out, err
			}
		}
		if !starts {
			return out, nil
		}
		if err := l.begin(sim); err != nil {
			return out, err
		}
	}
}

// begin starts the first leg, or has it wait where the gate is shut.
func (l *legs) begin(sim *fleet.Sim) error {
	leg := l.due[0]
	l.due = l.due[1:]
	worker, ok := sim.WorkerIndex(leg.Candidate.Worker)
	if !ok {
		return fmt.Errorf("harm: no worker %q", leg.Candidate.Worker)
	}
	flows := 0.0
	state := sim.StateOf(worker, leg.Seed())
	if leg.Link != "" {
		flows = state.Rivals
	}
	if !l.gate.Open(state.GPUQueue, flows) {
		leg.start += again
		l.wait(leg)
		return nil
	}
	l.running[leg.Seed()] = leg.Leg
	return sim.Inject(fleet.Leg{ID: leg.Seed(), PromptTokens: leg.TokensPrompt, Candidate: leg.Candidate})
}

// wait puts legs into their places.
func (l *legs) wait(legs ...waiting) {
	l.due = append(l.due, legs...)
	slices.SortStableFunc(l.due, func(a, b waiting) int { return cmp.Compare(a.start, b.start) })
}

func nanos(seconds float64) int64 { return int64(seconds * 1e9) }

func (l *legs) finish(o *fleet.LegOutcome) error {
	leg := l.running[o.Leg.ID]
	delete(l.running, o.Leg.ID)
	result := execute.Result{
		StartNanos: nanos(o.At), EndNanos: nanos(o.FirstToken), Observed: o.Observed,
		State: execute.State{GPUQueue: o.State.GPUQueue, Flows: o.State.Rivals},
		Cost:  execute.Cost{GPUSeconds: o.GPUSeconds, Bytes: float64(o.LinkBytes)},
	}
	return l.runner.Finish(context.Background(), nanos(o.FirstToken), leg, result, nil)
}

// draw shows the runner what was decided, and takes the legs that it funds.
func (l *legs) draw(sim *fleet.Sim, outcomes []fleet.Outcome) error {
	if l == nil {
		return nil
	}
	parts := make([]*schema.Part, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		p := &schema.Part{
			Kind: schema.KindContract, StartNanos: nanos(o.At), EndNanos: nanos(o.FirstToken), Decision: o.Decision, Observed: o.Observed,
		}
		binary.BigEndian.PutUint64(p.Trace[8:], uint64(o.Index)+1)
		binary.BigEndian.PutUint64(p.Span[:], uint64(o.Index)+1)
		parts[i] = p
	}
	slices.SortFunc(parts, func(a, b *schema.Part) int { return int(a.StartNanos - b.StartNanos) })
	due, err := l.runner.Offer(nanos(sim.Now()), parts)
	for _, leg := range due {
		l.wait(waiting{leg, float64(leg.DecidedNanos)/1e9 + delay})
	}
	return err
}
