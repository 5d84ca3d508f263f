package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Stock computes the namespace's prefix as long as the largest size, on each
// worker that can force a fetch: the smaller ones are its beginnings. model is
// not looked at, for a server has one.
func (e *Serving) Stock(ctx context.Context, _ string, sizes []int64) (out []Stocked, err error) {
	if len(sizes) == 0 {
		return nil, nil
	}
	most := slices.Max(sizes)
	if slices.Min(sizes) < 1 || most > int64(e.cfg.NamespaceTokens) {
		return nil, fmt.Errorf("replay namespace: %w: prefixes of %v tokens, and it may hold %d", ErrRefused, sizes, e.cfg.NamespaceTokens)
	}
	var errs []error
	for _, c := range e.cfg.Workers {
		w := e.workers[c.Name]
		f, err := w.probed(ctx)
		if err == nil && f.fetch != "" {
			continue
		}
		var cost Cost
		if err == nil {
			cost, err = e.stockOne(ctx, w, f, int(most))
		}
		if cost != (Cost{}) {
			out = append(out, Stocked{Worker: c.Name, Tokens: most, Cost: cost})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("replay namespace: %d tokens on worker %s: %w", most, c.Name, err))
		}
	}
	return out, errors.Join(errs...)
}

func (e *Serving) stockOne(ctx context.Context, w *servingWorker, f facts, n int) (Cost, error) {
	limited, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	select {
	case w.lease <- struct{}{}:
		defer func() { <-w.lease }()
	case <-limited.Done():
		return Cost{}, fmt.Errorf("%w: the worker is at other legs: %w", ErrUnavailable, limited.Err())
	}
	r := &servingRun{worker: w, facts: f, fetched: n, salt: e.cfg.Namespace, id: schema.ReplayRequestIDPrefix + "stock"}
	err := e.gate(limited, w)
	if err == nil {
		err = e.fill(limited, r)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w: no end within %v: %w", ErrUnavailable, e.cfg.Timeout, err)
	}
	return r.spent, err
}

// Namespaces says how long a prefix each worker has computed for it. How many
// bytes it takes no engine says.
func (e *Serving) Namespaces() []Namespace {
	var out []Namespace
	for _, c := range e.cfg.Workers {
		w := e.workers[c.Name]
		w.mu.Lock()
		if w.built > 0 {
			out = append(out, Namespace{Tier: e.cfg.External.String(), Link: c.Name, Sizes: []int64{int64(w.built)}})
		}
		w.mu.Unlock()
	}
	return out
}
