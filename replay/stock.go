package replay

import (
	"context"
	"errors"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/retry"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
)

// Stocking is what the replay namespace is to hold before legs run.
type Stocking struct {
	Model string
	Sizes []int64 // tokens of a prefix
}

// stockPatience is how long engines may be busy before legs run without the rest:
// each then builds what it needs.
const stockPatience = time.Minute

// stockID stands for the building of the namespace among the legs under way.
const stockID = "replay namespace"

// stock builds the replay namespace, where the executor keeps one, and charges it.
// The kill switch and the breaker end it as they end legs.
func (r *Runner) stock(ctx context.Context, ex execute.Executor) {
	k, ok := ex.(execute.Keeper)
	if !ok || len(r.cfg.Stock.Sizes) == 0 {
		return
	}
	until := r.cfg.Now().Add(stockPatience)
	for {
		err := r.stockOnce(ctx, k)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.cfg.Logger.Info("replay: the replay namespace is in place", "sizes", r.cfg.Stock.Sizes)
			return
		case !errors.Is(err, execute.ErrUnavailable) || r.cfg.Now().After(until):
			r.cfg.Logger.Warn("replay: the replay namespace is not complete, legs will build what they need", "error", err)
			return
		}
		if !retry.Pause(ctx, r.cfg.Retry) {
			return
		}
	}
}

func (r *Runner) stockOnce(ctx context.Context, k execute.Keeper) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.mu.Lock()
	if why := r.killedNow(); why != "" {
		r.mu.Unlock()
		return errors.Join(errKilled, execute.ErrUnavailable)
	}
	r.way[stockID] = cancel
	r.mu.Unlock()
	built, err := k.Stock(inner, r.cfg.Stock.Model, r.cfg.Stock.Sizes)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.way, stockID)
	for _, b := range built {
		r.ledger.Charge(r.now(), budget.Charge{Worker: b.Worker, GPUSeconds: b.Cost.GPUSeconds, Bytes: b.Cost.Bytes})
		r.stats.Stocked++
	}
	if cut := context.Cause(inner); err != nil && cut != nil {
		return errors.Join(cut, execute.ErrUnavailable)
	}
	if len(built) > 0 {
		return errors.Join(err, r.keep(r.now()))
	}
	return err
}
