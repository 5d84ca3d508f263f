package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	MaxWaiting  int                  // legs that wait for budget; more are dropped; 0: 20,000
	Idle        budget.Idle          // gate; its zero value is always open
	Breaker     budget.BreakerConfig // its zero value is none
	Adapt       time.Duration        // how often the rates are fitted to the budget, by a new plan; 0: never
	Lead        time.Duration        // from the making of a plan to the first decision drawn by it; 0: 1 min
	Stock       Stocking             // of executors that keep a replay namespace
	Concurrency int                  // legs at once; 0: 4
	Batch       time.Duration        // legs drawn within it are one batch; 0: 10 s
	Retry       time.Duration        // pause before an unavailable executor or a shut gate is tried again; 0: 1 s
	KillFile    string               // while it exists nothing runs; "" for none
	Now         func() time.Time     // of Run; nil: time.Now
	Logger      *slog.Logger         // nil: slog.Default
}

// Runner draws, runs and reports legs. It is safe for concurrent use.
type Runner struct {
	cfg   Config
	store *Store

	mu        sync.Mutex    // over what follows
	queue     []execute.Leg // wait for budget, oldest first
	plans     *sample.History
	ledger    *budget.Ledger
	breaker   *budget.Breaker
	stats     Stats
	count     budget.Completion
	learnt    learnt
	killed    string                             // why; "" while running
	unwritten bool                               // the kill file could not be made
	way       map[string]context.CancelCauseFunc // of legs under way, by id
	handed    int                                // legs that Run has from Due and is not done with
	gated     int                                // of them, those that the idle gate holds
	runs      execute.Executor                   // that Run was given
	looked    int64                              // when the breaker was last asked, Unix nanoseconds
}

// New makes a runner; legs that the store still has without a result wait again,
// and budgets, counts and plans go on. The store stays the caller's to close.
func New(cfg Config, store *Store) (*Runner, error) {
	if cfg.Plan == nil || cfg.Emit == nil || store == nil {
		return nil, errors.New("replay runner: a plan, an emitter and a store are required")
	}
	cfg.setDefaults()
	r := &Runner{
		cfg: cfg, store: store, way: map[string]context.CancelCauseFunc{},
		stats: Stats{Ineligible: map[string]int64{}, Dropped: map[string]int64{}},
	}
	var err error
	if r.ledger, err = budget.New(cfg.Limits); err != nil {
		return nil, err
	}
	if r.breaker, err = budget.NewBreaker(cfg.Breaker); err != nil {
		return nil, err
	}
	books, entries := store.kept()
	r.ledger.Restore(books.Ledger)
	r.count.Set(books.Tallies)
	if err := r.openPlans(entries); err != nil {
		return nil, err
	}
	r.queue, _ = store.pending()
	sort.SliceStable(r.queue, func(i, j int) bool { return r.queue[i].DecidedNanos < r.queue[j].DecidedNanos })
	return r, nil
}

// openPlans takes up the plans that were in force, and then that of the settings.
func (r *Runner) openPlans(entries []sample.Entry) (err error) {
	if len(entries) == 0 {
		r.plans = sample.NewHistory(r.cfg.Plan)
		return r.store.keepPlans(r.plans.Entries())
	}
	if r.plans, err = r.cfg.Plan.RestoreHistory(entries); err != nil {
		return fmt.Errorf("replay runner: %w", err)
	}
	changed, err := r.plans.Settle(r.cfg.Now().Add(r.cfg.Lead).UnixNano(), r.cfg.Plan)
	if err != nil || !changed {
		return err
	}
	last, _ := r.plans.Last()
	r.cfg.Logger.Info("replay: the settings make a new sampling plan", "plan", last.ID, "since", time.Unix(0, last.Since).UTC())
	return r.store.keepPlans(r.plans.Entries())
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
	if c.Lead <= 0 {
		c.Lead = time.Minute
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
		return r.drop(now, leg, reasonOf(runErr), never(runErr))
	}
	if err := r.book(now, &leg, &result); err != nil {
		return err
	}
	return r.send(ctx, now, finished{leg, result})
}

// book settles the budget and makes the result durable.
func (r *Runner) book(now int64, leg *execute.Leg, result *execute.Result) error {
	expected := leg.Estimate()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.Charge(now, charge(leg, execute.Cost{
		GPUSeconds: result.Cost.GPUSeconds - expected.GPUSeconds, Bytes: result.Cost.Bytes - expected.Bytes,
	}))
	r.stats.Executed++
	r.count.Execute(cellOf(leg))
	r.learnt.result(leg, result)
	if !r.breaker.Ended(leg.ID, now) {
		r.breaker.Ran(budget.Span{Worker: leg.Candidate.Worker, Link: leg.Link, Start: result.StartNanos, End: result.EndNanos})
	}
	return r.keep(now, line{ID: leg.ID, At: now, Result: result})
}

// drop gives up a leg. It gives back what a leg was charged that never ran.
func (r *Runner) drop(now int64, leg execute.Leg, why string, neverRan bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if neverRan {
		r.refund(now, &leg)
	}
	r.stats.Dropped[why]++
	return r.keep(now, line{ID: leg.ID, At: now, Done: true, Why: why})
}

func (r *Runner) refund(now int64, leg *execute.Leg) {
	c := chargeOf(leg)
	c.GPUSeconds, c.Bytes = -c.GPUSeconds, -c.Bytes
	r.ledger.Charge(now, c)
}

// keep makes records durable, with what changed in the books before them: after a
// crash between the two the budget is too small rather than too large.
func (r *Runner) keep(now int64, lines ...line) error {
	if r.store.path == "" {
		return r.store.append(lines...)
	}
	books := line{ID: booksID, At: now, Books: &Books{Ledger: r.ledger.Changed(), Tallies: r.count.Changed()}}
	return r.store.append(append([]line{books}, lines...)...)
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, execute.ErrRefused):
		return "refused by the executor"
	case errors.Is(err, execute.ErrUnavailable):
		return "the executor was not available"
	case errors.Is(err, execute.ErrNotForced):
		return "the path was not forced"
	}
	return "failed"
}

// never tells whether an executor that gave this error ran nothing. What one that
// failed otherwise has spent is not known, so the leg's charge stands for it.
func never(err error) bool {
	return errors.Is(err, execute.ErrRefused) || errors.Is(err, execute.ErrUnavailable)
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
