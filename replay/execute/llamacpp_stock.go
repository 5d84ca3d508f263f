package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvwhatif/kvwhatif/schema"
)

// stock is the first n tokens of the namespace's own prompt, which no request of
// production begins with.
func (e *Llama) stock(n int) []int32 {
	return e.cfg.Vocab.Suffix("kvwhatif replay namespace", "", n)
}

// stocked is the sizes, up to n, that some namespace may have, the largest first.
func (e *Llama) stocked(n int) []int {
	var out []int
	for _, t := range e.tiers {
		for _, size := range t.sizes() {
			if size <= int64(n) {
				out = append(out, int(size))
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.Reverse(out)
	return out
}

// Stock builds a prefix of each size into each tier's namespace. The larger ones
// begin with the smaller.
func (e *Llama) Stock(ctx context.Context, model string, sizes []int64) (out []Stocked, err error) {
	sizes = slices.Compact(slices.Sorted(slices.Values(sizes)))
	for i, t := range e.tiers {
		w := e.workers[e.cfg.Workers[i%len(e.cfg.Workers)].Name]
		for _, n := range sizes {
			if n < 1 {
				return out, fmt.Errorf("replay namespace: %w: a prefix of %d tokens", ErrRefused, n)
			}
			cost, err := e.stockOne(ctx, &llamaRun{worker: w, tier: t, prompt: e.stock(int(n)), held: int(n), step: 1, model: model})
			if cost != (Cost{}) {
				out = append(out, Stocked{Worker: w.Name, Tokens: n, Cost: cost})
			}
			if err != nil {
				return out, fmt.Errorf("replay namespace: %d tokens on worker %s: %w", n, w.Name, err)
			}
		}
	}
	return out, nil
}

func (e *Llama) stockOne(ctx context.Context, r *llamaRun) (Cost, error) {
	r.key = r.keyOf(r.held)
	if r.tier.pin(r.key) {
		r.tier.unpin(r.key)
		return Cost{}, nil
	}
	id := "stock-" + r.key
	r.file = schema.ReplayRequestIDPrefix + id + llamaSuffix
	limited, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	if err := e.take(limited, id, r); err != nil {
		return Cost{}, mapped(err)
	}
	err := e.gate(limited, r.worker)
	if err == nil {
		err = e.build(limited, r)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w: no end within %v: %w", ErrUnavailable, e.cfg.Timeout, err)
	}
	if err != nil {
		err = mapped(err)
	}
	return r.spent, errors.Join(err, e.release(ctx, id))
}

// Namespaces says what the tiers' namespaces hold.
func (e *Llama) Namespaces() []Namespace {
	out := make([]Namespace, len(e.tiers))
	for i, t := range e.tiers {
		t.mu.Lock()
		bytes := t.bytes
		t.mu.Unlock()
		out[i] = Namespace{
			Tier: t.Tier.String(), Link: t.Link.Name, Sizes: t.sizes(), Bytes: bytes, Quota: t.Quota,
			Built: t.built.Load(), Hits: t.hits.Load(),
		}
	}
	return out
}

// sizes is the sizes of the files, tokens, rising.
func (s *llamaStore) sizes() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]int64, 0, len(s.files))
	for key := range s.files {
		tokens, _, _ := strings.Cut(key, "-")
		if n, err := strconv.ParseInt(tokens, 10, 64); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
