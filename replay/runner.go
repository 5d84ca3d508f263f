package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sort"
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

	MaxWaiting  int              // legs that wait for budget; more are dropped; 0: 20,000
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

	mu     sync.Mutex    // over what follows
	queue  []execute.Leg // wait for budget, oldest first
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
	Waiting    int              // legs that wait for budget
	OldestWait int64            // instant of the oldest decision that waits, Unix nanoseconds; 0 for none: estimate up to it
	Executed   int64            // legs with a result
	Emitted    int64            // results accepted by the pipeline
	Completion []budget.Tally   // by stratum, leg and path
	BySize     []budget.Tally   // by size bucket and leg
	Production budget.Charge    // cost seen
	Legs       budget.Charge    // cost charged
}

// New makes a runner; legs that the store still has without a result wait again.
// The store stays the caller's to close.
func New(cfg Config, store *Store) (*Runner, error) {
	if cfg.Plan == nil || cfg.Emit == nil || store == nil {
		return nil, errors.New("replay runner: a plan, an emitter and a store are required")
	}
	ledger, err := budget.New(cfg.Limits)
	if err != nil {
		return nil, err
	}
	cfg.setDefaults()
	pending, _ := store.pending()
	sort.SliceStable(pending, func(i, j int) bool { return pending[i].DecidedNanos < pending[j].DecidedNanos })
	return &Runner{
		cfg: cfg, store: store, plan: cfg.Plan, ledger: ledger, queue: pending,
		stats: Stats{Ineligible: map[string]int64{}, Dropped: map[string]int64{}},
	}, nil
}

func (c *Config) setDefaults() {
	if c.Concurrency <= 0 {
		c.Concurrency = 4
	}
	if c.MaxWaiting <= 0 {
		c.MaxWaiting = 20_000
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
	s.Waiting = len(r.queue)
	for i := range r.queue {
		if at := r.queue[i].DecidedNanos; s.OldestWait == 0 || at < s.OldestWait {
			s.OldestWait = at
		}
	}
	s.Completion, s.BySize = r.count.Tallies(), r.count.BySize()
	s.Production, s.Legs = r.ledger.Totals()
	return s
}
