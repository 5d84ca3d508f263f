package replay

import (
	"context"
	"log/slog"
	"sort"
	"strconv"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// lookEvery is how often the breaker judges, nanoseconds.
const lookEvery = int64(5e9)

// underWay runs a leg so that the kill switch and the breaker can cut it short; cut
// says which of them did.
func (r *Runner) underWay(ctx context.Context, ex execute.Executor, leg execute.Leg) (_ execute.Result, err, cut error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.mu.Lock()
	switch {
	case r.killedNow() != "":
		cancel(errKilled)
	case !r.breaker.Allows():
		cancel(errHeld)
	default:
		r.breaker.Began(leg.ID, leg.Candidate.Worker, leg.Link, r.now())
	}
	r.way[leg.ID] = cancel
	r.mu.Unlock()
	result, err := r.attempt(inner, ex, leg)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.way, leg.ID)
	if err != nil {
		r.breaker.Ended(leg.ID, r.now())
	}
	return result, err, context.Cause(inner)
}

// putBack has a leg wait again, in its place. What it was charged is spent: it is
// charged anew when it starts again.
func (r *Runner) putBack(leg execute.Leg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := sort.Search(len(r.queue), func(i int) bool { return r.queue[i].DecidedNanos > leg.DecidedNanos })
	r.queue = append(r.queue[:i], append([]execute.Leg{leg}, r.queue[i:]...)...)
}

// executor is what Run was given; nil before.
func (r *Runner) executor() execute.Executor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs
}

func (r *Runner) handedOn(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed += n
}

// idle tells whether no leg waits or runs.
func (r *Runner) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) == 0 && r.handed == 0
}

// gate counts the legs that the idle gate holds.
func (r *Runner) gate(held *bool, now bool) {
	if *held == now {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if *held = now; now {
		r.gated++
	} else {
		r.gated--
	}
}

// lets tells whether the breaker lets a leg start beside n that start with it.
func (r *Runner) lets(n int) bool {
	phase, _ := r.breaker.Phase()
	return r.breaker.Allows() && (phase != budget.Trial || n == 0)
}

// observe shows the breaker a request of production.
func (r *Runner) observe(p *schema.Part) {
	d := &p.Decision
	if !p.Observed.TTFT.OK {
		return
	}
	end := max(p.EndNanos, p.StartNanos+int64(p.Observed.TTFT.V*1e9))
	r.breaker.Observe(budget.Seen{
		Start: p.StartNanos, End: end, Worker: d.Worker, Link: d.Link, TTFT: p.Observed.TTFT.V,
		Group: d.Path.String() + "/" + strconv.Itoa(schema.SizeBucket(d.TokensPrompt.Or(0))),
	})
}

// look asks the breaker, now and then.
func (r *Runner) look(now int64) {
	if now-r.looked < lookEvery {
		return
	}
	r.looked = now
	t, turned := r.breaker.Look(now)
	if !turned {
		return
	}
	level := slog.LevelInfo
	if t.To == budget.Open {
		level = slog.LevelWarn
		r.cut(errHeld)
	}
	r.cfg.Logger.Log(context.Background(), level, "replay: the circuit breaker turned", "from", t.From.String(), "to", t.To.String(), "why", t.Why,
		"beside_replays", t.Reading.Beside, "beyond", t.Reading.Over, "expected", t.Reading.Expected,
		"p99_seconds", t.Reading.P99, "baseline_seconds", t.Reading.Baseline)
}
