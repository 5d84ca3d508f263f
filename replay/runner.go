package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Emit sends a replay part on its way into the pipeline. It returns once the
// part is accepted.
type Emit func(ctx context.Context, part schema.Part) error

// ErrNotEmitted says that a result is durable, but the pipeline has not accepted
// it yet: Flush tries again.
var ErrNotEmitted = errors.New("the result is not emitted yet")

// Config configures a Runner. Plan, Limits and Emit are required.
type Config struct {
	Plan   *sample.Plan
	Limits budget.Limits
	Emit   Emit

	Idle        budget.Idle      // gate; its zero value is always open
	Concurrency int              // legs at once; 0: 4
	Batch       time.Duration    // legs drawn within it are one batch; 0: 10 s
	Retry       time.Duration    // pause before an unavailable executor or a shut gate is tried again; 0: 1 s
	KillFile    string           // while it exists nothing runs; "" for none
	Now         func() time.Time // of Run; nil: time.Now
	Logger      *slog.Logger     // nil: slog.Default
}

// Runner draws, runs and reports legs. It is safe for concurrent use.
type Runner struct {
	cfg   Config
	store *Store

	mu     sync.Mutex // over what follows
	plan   *sample.Plan
	ledger *budget.Ledger
	stats  Stats
	count  budget.Completion
	killed string // why; "" while running
}

// Stats is what a runner has done since it started. Completion counts are of
// legs that were first seen since then.
type Stats struct {
	Plan       string
	Killed     string           // why nothing runs; "" while it does
	Decisions  int64            // parts with a decision
	Ineligible map[string]int64 // of them, by why they can not be replayed
	Drawn      int64            // legs
	Again      int64            // legs that came again and were known
	Dropped    map[string]int64 // legs that did not run, by why
	Executed   int64            // legs with a result
	Emitted    int64            // results accepted by the pipeline
	Completion []budget.Tally   // by stratum, leg and path
	BySize     []budget.Tally   // by size bucket and leg
	Production budget.Charge    // cost seen
	Legs       budget.Charge    // cost charged
}

// New makes a runner. The store stays the caller's to close.
func New(cfg Config, store *Store) (*Runner, error) {
	if cfg.Plan == nil || cfg.Emit == nil || store == nil {
		return nil, errors.New("replay runner: a plan, an emitter and a store are required")
	}
	ledger, err := budget.New(cfg.Limits)
	if err != nil {
		return nil, err
	}
	cfg.setDefaults()
	return &Runner{
		cfg: cfg, store: store, plan: cfg.Plan, ledger: ledger,
		stats: Stats{Ineligible: map[string]int64{}, Dropped: map[string]int64{}},
	}, nil
}

func (c *Config) setDefaults() {
	if c.Concurrency <= 0 {
		c.Concurrency = 4
	}
	if c.Batch <= 0 {
		c.Batch = 10 * time.Second
	}
	if c.Retry <= 0 {
		c.Retry = time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

// Offer draws the legs of decisions, at the instant now (Unix nanoseconds), and
// gives those that the budget and the deadline admit. When it returns, every leg
// drawn is in the store, and the parts' offsets may be committed. Parts of other
// kinds are passed over; a decision that comes again gives nothing.
func (r *Runner) Offer(now int64, parts []*schema.Part) ([]execute.Leg, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var legs []execute.Leg
	var lines []line
	fresh := map[string]bool{}
	for _, p := range parts {
		for _, l := range r.draw(now, p) {
			if fresh[l.ID] || r.store.seen(l.ID) {
				r.stats.Again++
				continue
			}
			fresh[l.ID] = true
			r.stats.Drawn++
			r.count.Intend(cellOf(&l))
			if why := r.admit(now, &l); why != "" {
				r.stats.Dropped[why]++
				lines = append(lines, line{ID: l.ID, At: now, Done: true})
				continue
			}
			legs = append(legs, l)
			lines = append(lines, line{ID: l.ID, At: now, Leg: &l})
		}
	}
	if err := r.store.append(lines...); err != nil {
		return nil, err
	}
	return legs, nil
}

func (r *Runner) draw(now int64, p *schema.Part) []execute.Leg {
	if p.Kind != schema.KindContract {
		return nil
	}
	r.stats.Decisions++
	r.ledger.Earn(now, productionCost(p))
	if why := sample.Eligible(p); why != "" {
		r.stats.Ineligible[why]++
		return nil
	}
	draws := r.plan.Draw(p)
	legs := make([]execute.Leg, len(draws))
	for i, d := range draws {
		batch := fmt.Sprintf("%s-%d", r.plan.ID(), now/int64(r.cfg.Batch))
		legs[i] = legOf(r.plan, p, d, batch)
	}
	return legs
}

// admit says why a leg is not to run; "" where it is, and is charged.
func (r *Runner) admit(now int64, l *execute.Leg) string {
	switch {
	case r.killedNow() != "":
		return "killed"
	case r.ledger.Expired(l.DecidedNanos, now):
		return "past its deadline"
	case r.ledger.Take(now, chargeOf(l)) != "":
		return "over budget"
	}
	return ""
}

func cellOf(l *execute.Leg) budget.Cell {
	size := -1
	if l.TokensPrefix >= 0 {
		size = schema.SizeBucket(l.TokensPrefix)
	}
	return budget.Cell{Stratum: l.Stratum, Size: size, Leg: l.Kind.String(), Path: l.Path.String()}
}

// Finish takes what a leg came to, at the instant now (Unix nanoseconds): it
// settles the budget, makes the result durable and emits it. runErr says that
// there is no result: the leg is then dropped, and counts as not completed. An
// ErrNotEmitted leaves the result in the store, for Flush.
func (r *Runner) Finish(ctx context.Context, now int64, leg execute.Leg, result execute.Result, runErr error) error {
	if runErr == nil {
		runErr = result.Check()
	}
	if runErr != nil {
		return r.drop(now, leg, reasonOf(runErr))
	}
	expected := leg.Estimate()
	r.mu.Lock()
	r.ledger.Charge(now, charge(&leg, execute.Cost{
		GPUSeconds: result.Cost.GPUSeconds - expected.GPUSeconds, Bytes: result.Cost.Bytes - expected.Bytes,
	}))
	r.stats.Executed++
	r.count.Execute(cellOf(&leg))
	r.mu.Unlock()
	if err := r.store.append(line{ID: leg.ID, At: now, Result: &result}); err != nil {
		return err
	}
	return r.send(ctx, now, finished{leg, result})
}

// drop gives up a leg, and gives back what it was charged.
func (r *Runner) drop(now int64, leg execute.Leg, why string) error {
	expected := chargeOf(&leg)
	expected.GPUSeconds, expected.Bytes = -expected.GPUSeconds, -expected.Bytes
	r.mu.Lock()
	r.ledger.Charge(now, expected)
	r.stats.Dropped[why]++
	r.mu.Unlock()
	return r.store.append(line{ID: leg.ID, At: now, Done: true})
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, execute.ErrRefused):
		return "refused by the executor"
	case errors.Is(err, execute.ErrUnavailable):
		return "the executor was not available"
	}
	return "failed"
}

// Flush emits results that are in the store and were not accepted yet.
func (r *Runner) Flush(ctx context.Context, now int64) error {
	_, unsent := r.store.pending()
	for _, f := range unsent {
		if err := r.send(ctx, now, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) send(ctx context.Context, now int64, f finished) error {
	if err := r.cfg.Emit(ctx, partOf(&f.leg, &f.result)); err != nil {
		return fmt.Errorf("leg %s: %w: %w", f.leg.ID, ErrNotEmitted, err)
	}
	r.mu.Lock()
	r.stats.Emitted++
	r.mu.Unlock()
	return r.store.append(line{ID: f.leg.ID, At: now, Done: true})
}

// SetPlan changes the plan for decisions to come.
func (r *Runner) SetPlan(p *sample.Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan = p
}

// Stats gives a copy of the counts.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Plan, s.Killed = r.plan.ID(), r.killedNow()
	s.Ineligible, s.Dropped = maps.Clone(s.Ineligible), maps.Clone(s.Dropped)
	s.Completion, s.BySize = r.count.Tallies(), r.count.BySize()
	s.Production, s.Legs = r.ledger.Totals()
	return s
}
