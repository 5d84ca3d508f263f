package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// minAdapt is how many decisions a stretch needs for its rates to be fitted to it.
const minAdapt = 1000

// worthAVersion is the share by which some rate must change for a new plan.
const worthAVersion = 0.25

// learnt is what a stretch of decisions showed about strata.
type learnt struct {
	since     int64 // Unix nanoseconds; 0: nothing yet
	decisions int
	strata    map[string]*stratumLearnt
	control   execute.Cost // that control legs of the stretch are expected to take
	earned    execute.Cost // of production, when it began
}

type stratumLearnt struct {
	stratum   sample.Stratum
	decisions float64
	cost      execute.Cost // of the alternatives, in all
	n         float64      // results
	mean, m2  float64      // of ỹ* − m_b over them (Welford)
}

func (l *learnt) decision(plan *sample.Plan, d *schema.Decision) {
	alt := d.Alternative()
	if alt < 0 {
		return
	}
	l.decisions++
	s := l.at(plan.StratumOf(d))
	s.decisions++
	leg := execute.Leg{Candidate: d.Candidates[alt]}
	add(&s.cost, leg.Estimate(), 1)
	own, rate := execute.Leg{Candidate: d.Candidates[d.Chosen.V]}, plan.ControlRate(d.Path)
	add(&l.control, own.Estimate(), rate)
}

func (l *learnt) at(s sample.Stratum) *stratumLearnt {
	if l.strata == nil {
		l.strata = map[string]*stratumLearnt{}
	}
	name := s.String()
	if l.strata[name] == nil {
		l.strata[name] = &stratumLearnt{stratum: s}
	}
	return l.strata[name]
}

func (l *learnt) result(leg *execute.Leg, r *execute.Result) {
	s := l.strata[leg.Stratum]
	if s == nil || leg.Kind != schema.LegRejected {
		return
	}
	part := partOf(leg, r)
	x := r.Observed.TTFT.V + leg.ModelDecision - part.Replay.ModelReplay.V - leg.Candidate.TTFT
	if x != x {
		return
	}
	s.n++
	d := x - s.mean
	s.mean += d / s.n
	s.m2 += d * (x - s.mean)
}

func (l *learnt) counts() []sample.Count {
	out := make([]sample.Count, 0, len(l.strata))
	for _, s := range l.strata {
		c := sample.Count{Stratum: s.stratum, Decisions: s.decisions, Cost: s.cost.GPUSeconds / s.decisions, Bytes: s.cost.Bytes / s.decisions}
		if s.n >= 5 {
			c.SD = math.Sqrt(s.m2 / (s.n - 1))
		}
		out = append(out, c)
	}
	return out
}

// adapt makes the next plan when its time has come: rates that spend the budget of
// another stretch such as the last, where they tell most. Decisions that started
// before the new plan's are drawn by the old one, whenever they come.
func (r *Runner) adapt(now int64) error {
	if r.cfg.Adapt <= 0 {
		return nil
	}
	if r.learnt.since == 0 {
		r.begin(now)
	}
	if now-r.learnt.since < int64(r.cfg.Adapt) || r.learnt.decisions < minAdapt {
		return nil
	}
	defer r.begin(now)
	entry, last := r.plans.Last()
	since := now + int64(r.cfg.Lead)
	if last == nil || since <= entry.Since {
		return nil
	}
	next, err := last.Replan(r.learnt.counts(), r.funds(now))
	if err != nil {
		return fmt.Errorf("adapt the sampling plan: %w", err)
	}
	if !last.Differs(next, worthAVersion) {
		return nil
	}
	if err := r.plans.Append(since, next, entry.Base, "budget"); err != nil {
		return fmt.Errorf("adapt the sampling plan: %w", err)
	}
	r.cfg.Logger.Info("replay: the sampling plan follows the budget", "plan", next.ID(), "since", time.Unix(0, since).UTC(), "decisions", r.learnt.decisions)
	return r.store.keepPlans(r.plans.Entries())
}

// begin begins a stretch.
func (r *Runner) begin(now int64) {
	p, _ := r.ledger.Totals()
	r.learnt = learnt{since: now, earned: execute.Cost{GPUSeconds: p.GPUSeconds, Bytes: p.Bytes}}
}

// funds are what rejected legs may cost in another stretch such as the last.
func (r *Runner) funds(now int64) sample.Funds {
	p, _ := r.ledger.Totals()
	l, seconds := r.cfg.Limits, float64(now-r.learnt.since)/1e9
	f := sample.Funds{
		GPUSeconds: l.Share*(p.GPUSeconds-r.learnt.earned.GPUSeconds) + l.GPURate*seconds - r.learnt.control.GPUSeconds,
		Bytes:      l.Share*(p.Bytes-r.learnt.earned.Bytes) + l.ByteRate*seconds - r.learnt.control.Bytes,
	}
	// With nothing left the least rates stand: never none.
	f.GPUSeconds, f.Bytes = max(f.GPUSeconds, 1e-9), max(f.Bytes, 1)
	return f
}
