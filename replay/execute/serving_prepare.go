package execute

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
)

// servingRun is a leg that is prepared: it has its worker.
type servingRun struct {
	worker            *servingWorker
	facts             facts
	resident, fetched int
	prompt            []int32
	salt              string
	id                string  // of its next request at the engine, without a number
	asked             int     // requests so far
	bytes             float64 // that a fetch moves
	spent             Cost    // by what has run so far
}

// plan works out what a leg needs, or why it can not be forced.
func (e *Serving) plan(ctx context.Context, leg *Leg) (*servingRun, error) {
	w, err := e.worker(leg)
	if err != nil {
		return nil, err
	}
	f, err := w.probed(ctx)
	if err != nil {
		return nil, err
	}
	c := &leg.Candidate
	r := &servingRun{worker: w, facts: f, resident: int(max(0, c.TokensResident)), fetched: int(max(0, c.TokensFetched)), bytes: float64(max(0, c.Bytes))}
	held := int64(r.resident + r.fetched)
	total, prefix := held+c.TokensComputed, max(held, leg.TokensPrefix)
	if why := e.refusal(leg, r, total, prefix); why != "" {
		return nil, fmt.Errorf("leg %s: %w: %s", leg.ID, ErrRefused, why)
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	fresh := hex.EncodeToString(nonce[:])
	r.id = schema.ReplayRequestIDPrefix + leg.ID + "-" + fresh[:8]
	r.prompt, r.salt = e.prompt(leg, f.salted, int(held), int(prefix), int(total), nonce), "kvwhatif-replay-"+leg.Salt+"-"+fresh
	if r.fetched > 0 {
		r.salt = e.cfg.Namespace
	}
	return r, nil
}

func (e *Serving) refusal(leg *Leg, r *servingRun, total, prefix int64) string {
	c := &leg.Candidate
	switch why := e.whyNot(r.worker, leg.Path); {
	case why != "":
		return why
	case c.TokensComputed < 1:
		return fmt.Sprintf("%d tokens to compute: at least one must be", c.TokensComputed)
	case leg.TokensPrompt >= 0 && leg.TokensPrompt != total, prefix > total:
		return fmt.Sprintf("a prompt of %d tokens, %d of them a prefix, is not %d resident, %d fetched and %d computed",
			leg.TokensPrompt, prefix, r.resident, r.fetched, c.TokensComputed)
	case (leg.Path == schema.PathFetch) != (r.fetched > 0):
		return fmt.Sprintf("a %s of %d fetched tokens", leg.Path, r.fetched)
	case r.resident > 0 && r.facts.resident != "":
		return r.facts.resident
	case r.resident > 0 && r.resident < r.facts.block:
		return fmt.Sprintf("%d resident tokens are less than a block of the engine's cache, %d", r.resident, r.facts.block)
	case r.fetched > 0 && r.fetched < e.cfg.ExternalBlock:
		return fmt.Sprintf("%d fetched tokens are less than what the tier keeps together, %d", r.fetched, e.cfg.ExternalBlock)
	case r.fetched > 0 && c.Tier != e.cfg.External:
		return fmt.Sprintf("the cache beside the engines is of tier %q, not %q", e.cfg.External, c.Tier)
	case r.fetched > 0 && r.resident+r.fetched > e.cfg.NamespaceTokens:
		return fmt.Sprintf("%d tokens are more than the replay namespace may hold, %d", r.resident+r.fetched, e.cfg.NamespaceTokens)
	case r.fetched > 0 && r.bytes <= 0:
		return "its candidate does not say how many bytes a fetch moves, so no budget can be charged"
	}
	return ""
}

// prompt makes a leg's tokens: of its prefix's blocks, which are other tokens for
// each run where the engine knows no salts; of a fetch, the beginning of the one
// prefix that the namespace holds, for what it is does not change how long it
// takes.
func (e *Serving) prompt(leg *Leg, salted bool, held, prefix, total int, nonce [16]byte) []int32 {
	var out []int32
	if leg.Path == schema.PathFetch {
		out = e.namespace(held)
	} else {
		seed := int64(binary.BigEndian.Uint64(nonce[:]))
		blocks := append([]int64(nil), leg.PrefixBlocks...)
		if !salted {
			for i := range blocks {
				blocks[i] ^= seed
			}
			if len(blocks) == 0 {
				blocks = []int64{seed}
			}
		}
		n := max(1, len(leg.PrefixBlocks))
		step := e.cfg.BlockTokens
		if step <= 0 {
			step = max(1, (prefix+n-1)/n)
		}
		out = e.cfg.Vocab.Prefix(blocks, step, prefix)
	}
	return append(out, e.cfg.Vocab.Suffix(leg.ID, hex.EncodeToString(nonce[:]), total-len(out))...)
}

// namespace is the first n tokens of the prefix that fetches read.
func (e *Serving) namespace(n int) []int32 {
	h := fnv.New64a()
	h.Write([]byte(e.cfg.Namespace))
	return e.cfg.Vocab.Prefix([]int64{int64(h.Sum64())}, 0, n)
}

// Prepare takes the worker, once the engine is quiet, and puts in place what the
// leg finds. For a fetch the prefix of the replay namespace is computed where it
// is not long enough yet, and the engine's own cache is dropped. The leg must be
// cleaned up.
func (e *Serving) Prepare(ctx context.Context, leg Leg) (Cost, error) {
	limited, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	r, err := e.plan(limited, &leg)
	if err != nil {
		return Cost{}, e.failed(ctx, &leg, "prepare", err)
	}
	if err := e.take(limited, leg.ID, r); err != nil {
		return Cost{}, e.failed(ctx, &leg, "prepare", err)
	}
	if err := e.ready(limited, r); err != nil {
		e.debts.owe(leg.ID, r.spent)
		return Cost{}, e.failed(ctx, &leg, "prepare", errors.Join(err, e.Cleanup(ctx, leg)))
	}
	owed, spent := e.debts.settle(leg.ID), r.spent
	r.spent = Cost{}
	return Cost{GPUSeconds: spent.GPUSeconds + owed.GPUSeconds, Bytes: spent.Bytes + owed.Bytes}, nil
}

func (e *Serving) take(ctx context.Context, id string, r *servingRun) error {
	e.mu.Lock()
	_, again := e.runs[id]
	e.mu.Unlock()
	if again {
		return fmt.Errorf("%w: it is being run already", ErrUnavailable)
	}
	select {
	case r.worker.lease <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs[id] = r
	return nil
}

func (e *Serving) ready(ctx context.Context, r *servingRun) error {
	if err := e.gate(ctx, r.worker); err != nil {
		return err
	}
	if r.fetched > 0 {
		if err := e.fill(ctx, r); err != nil {
			return err
		}
		if err := e.drop(ctx, r.worker); err != nil {
			return err
		}
	}
	if r.resident == 0 {
		return nil
	}
	_, err := r.ask(ctx, r.prompt[:r.resident])
	return err
}

// fill computes the namespace's prefix as far as the leg reads it, so that the
// tier keeps it. What it keeps beside the engine may be kept a moment later: a leg
// that comes too early finds too little and is ErrNotForced.
func (e *Serving) fill(ctx context.Context, r *servingRun) error {
	w, held := r.worker, r.resident+r.fetched
	w.mu.Lock()
	built := w.built
	w.mu.Unlock()
	if built >= held {
		return nil
	}
	whole := (held + e.cfg.ExternalBlock - 1) / e.cfg.ExternalBlock * e.cfg.ExternalBlock
	if _, err := r.ask(ctx, e.namespace(whole+1)); err != nil {
		return fmt.Errorf("fill the replay namespace: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.built = max(w.built, whole)
	return nil
}

// forget has the namespace filled again, for the tier has lost part of it.
func (w *servingWorker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.built = 0
}

// drop empties the engine's own cache. It can not while blocks are in use.
func (e *Serving) drop(ctx context.Context, w *servingWorker) error {
	return e.until(ctx, func() (bool, error) { return w.engine.drop(ctx) },
		fmt.Sprintf("worker %s does not drop its prefix cache: blocks are in use", w.Name))
}

// gate waits until the worker is at no more requests than MaxBusy. An engine that
// does not say how many it is at has no gate.
func (e *Serving) gate(ctx context.Context, w *servingWorker) error {
	return e.until(ctx, func() (bool, error) {
		running, waiting, err := w.engine.load(ctx)
		return !(running+waiting > float64(e.cfg.MaxBusy)), err
	}, fmt.Sprintf("worker %s is at more than %d requests", w.Name, e.cfg.MaxBusy))
}

// until repeats try until it is done, for GateWait at most.
func (e *Serving) until(ctx context.Context, try func() (done bool, err error), why string) error {
	patience := time.NewTimer(e.cfg.GateWait)
	defer patience.Stop()
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%w: %s", ErrUnavailable, why)
		case <-time.After(gateEvery):
		}
	}
}

// ask runs one of the leg's requests, and charges it.
func (r *servingRun) ask(ctx context.Context, prompt []int32) (served, error) {
	a, err := r.worker.engine.ask(ctx, r.question(prompt))
	if err == nil {
		r.spent.GPUSeconds += a.first.Sub(a.sent).Seconds()
	}
	return a, err
}

func (r *servingRun) question(prompt []int32) question {
	r.asked++
	return question{
		id: fmt.Sprintf("%s-%d", r.id, r.asked), model: r.facts.model, prompt: prompt, salt: r.salt, priority: r.facts.priority,
	}
}
