package execute

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/schema"
)

// llamaRun is a leg that is prepared: it has its worker's slot.
type llamaRun struct {
	worker *llamaWorker
	tier   *llamaTier // of a fetch
	prompt []int32
	held   int    // tokens that the slot holds, or will once they are fetched
	step   int    // tokens of a block of a recompute
	model  string // whose state it is
	key    string // of the file that a fetch moves
	file   string // name of what the leg puts into the server's directory
	pinned bool   // the tier keeps that file for it
	spent  Cost   // by what has run so far
}

// plan works out what a leg needs, or why it can not be forced.
func (e *Llama) plan(leg *Leg) (*llamaRun, error) {
	w, err := e.worker(leg)
	if err != nil {
		return nil, err
	}
	c := &leg.Candidate
	resident, fetched, computed := max(0, c.TokensResident), max(0, c.TokensFetched), c.TokensComputed
	total, held := resident+fetched+computed, resident+fetched
	prefix := leg.TokensPrefix
	if prefix < held {
		prefix = held
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("leg %s: %w: %s", leg.ID, ErrRefused, fmt.Sprintf(format, args...))
	}
	r := &llamaRun{worker: w, held: int(held), model: leg.Model, file: schema.ReplayRequestIDPrefix + leg.ID + llamaSuffix}
	switch {
	case computed < 1:
		return nil, refuse("%d tokens to compute: at least one must be", computed)
	case leg.TokensPrompt >= 0 && leg.TokensPrompt != total, prefix > total:
		return nil, refuse("a prompt of %d tokens, %d of them a prefix, is not %d resident, %d fetched and %d computed",
			leg.TokensPrompt, prefix, resident, fetched, computed)
	case (leg.Path == schema.PathFetch) != (fetched > 0):
		return nil, refuse("a %s of %d fetched tokens", leg.Path, fetched)
	case fetched > 0 && resident > 0:
		return nil, refuse("llama.cpp restores a slot as a whole: %d resident tokens can not stay beside %d fetched", resident, fetched)
	case fetched > 0:
		if r.tier = e.tier(leg); r.tier == nil {
			return nil, refuse("no directory for replays in tier %q over link %q", c.Tier, leg.Link)
		}
	}
	if r.step = e.cfg.BlockTokens; r.step <= 0 {
		n := max(1, len(leg.PrefixBlocks))
		r.step = max(1, (int(prefix)+n-1)/n)
	}
	// What the slot is to hold is of the namespace's own prompt, whatever the request
	// said: one state of a size serves all legs of that size. What is computed is of
	// nobody's.
	begin := e.stock(r.held)
	if r.held == 0 {
		begin = e.cfg.Vocab.Prefix(leg.PrefixBlocks, r.step, int(prefix))
	}
	r.prompt = append(begin, e.cfg.Vocab.Suffix(leg.ID, leg.Salt, int(total)-len(begin))...)
	r.key = r.keyOf(r.held)
	return r, nil
}

// keyOf names the state of the first n tokens of the prompt.
func (r *llamaRun) keyOf(n int) string {
	h := sha256.New()
	h.Write([]byte(r.model + "\x00"))
	for _, t := range r.prompt[:n] {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(t)))
	}
	return fmt.Sprintf("%d-%s", n, hex.EncodeToString(h.Sum(nil)[:12]))
}

// Prepare takes the worker's replay slot, once the engine is quiet. A fetch finds
// its prefix in the tier's replay namespace, or computes it there once; what
// route and resident reuse is put into the slot; a recompute begins with an empty
// one. The leg must be cleaned up.
func (e *Llama) Prepare(ctx context.Context, leg Leg) (Cost, error) {
	r, err := e.plan(&leg)
	if err != nil {
		return Cost{}, err
	}
	limited, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	if err := e.take(limited, leg.ID, r); err != nil {
		return Cost{}, e.failed(ctx, &leg, "prepare", err)
	}
	if err := e.ready(limited, r); err != nil {
		e.debts.owe(leg.ID, r.spent)
		return Cost{}, e.failed(ctx, &leg, "prepare", errors.Join(err, e.release(ctx, leg.ID)))
	}
	owed := e.debts.settle(leg.ID)
	spent := r.spent
	r.spent = Cost{}
	return Cost{GPUSeconds: spent.GPUSeconds + owed.GPUSeconds, Bytes: spent.Bytes + owed.Bytes}, nil
}

// take waits for the worker's slot.
func (e *Llama) take(ctx context.Context, id string, r *llamaRun) error {
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

func (e *Llama) ready(ctx context.Context, r *llamaRun) error {
	if err := e.gate(ctx, r.worker); err != nil {
		return err
	}
	if r.tier == nil {
		return e.hold(ctx, r, r.held)
	}
	if r.pinned = r.tier.pin(r.key); r.pinned {
		r.tier.hits.Add(1)
		return r.worker.client.Erase(ctx, r.worker.Slot)
	}
	return e.build(ctx, r)
}

// gate waits until the worker is at no more requests than MaxBusy.
func (e *Llama) gate(ctx context.Context, w *llamaWorker) error {
	patience := time.NewTimer(e.cfg.GateWait)
	defer patience.Stop()
	for {
		m, err := w.client.Metrics(ctx)
		if err != nil {
			return err
		}
		if m.Processing+m.Deferred <= float64(e.cfg.MaxBusy) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%w: worker %s is at %v requests and %v wait", ErrUnavailable, w.Name, m.Processing, m.Deferred)
		case <-time.After(gateEvery):
		}
	}
}

// build computes the prefix of a fetch and saves it into the tier's replay
// namespace, and leaves the slot empty.
func (e *Llama) build(ctx context.Context, r *llamaRun) error {
	if err := e.hold(ctx, r, r.held); err != nil {
		return err
	}
	begin, w := time.Now(), r.worker
	saved, err := w.client.Save(ctx, w.Slot, r.file)
	if err != nil {
		return err
	}
	r.spent.GPUSeconds += time.Since(begin).Seconds()
	if saved.Tokens != int64(r.held) {
		return fmt.Errorf("%w: %d tokens were saved of %d", ErrNotForced, saved.Tokens, r.held)
	}
	if err := r.tier.put(r.key, filepath.Join(w.SaveDir, r.file)); err != nil {
		return err
	}
	r.tier.built.Add(1)
	if r.pinned = r.tier.pin(r.key); !r.pinned {
		return fmt.Errorf("%w: the replay namespace has no room for its prefix beside others", ErrUnavailable)
	}
	return w.client.Erase(ctx, w.Slot)
}

// hold makes the slot hold the first n tokens of the prompt and no others: by the
// longest part of them that a replay namespace has, and computing the rest.
func (e *Llama) hold(ctx context.Context, r *llamaRun, n int) error {
	w := r.worker
	if err := w.client.Erase(ctx, w.Slot); err != nil || n == 0 {
		return err
	}
	have, err := e.reuse(ctx, r, n)
	if err != nil || have == n {
		return err
	}
	done, err := w.client.Complete(ctx, llama.Completion{Prompt: r.prompt[:n], Slot: w.Slot})
	if err != nil {
		return err
	}
	r.spent.GPUSeconds += done.First.Sub(done.Begun).Seconds()
	if done.Cached != int64(have) {
		return fmt.Errorf("%w: the slot held %d tokens where %d had been restored", ErrNotForced, done.Cached, have)
	}
	return nil
}

// reuse restores what a replay namespace has of the first n tokens.
func (e *Llama) reuse(ctx context.Context, r *llamaRun, n int) (int, error) {
	for _, have := range e.stocked(n) {
		for _, t := range e.tiers {
			key := r.keyOf(have)
			if !t.pin(key) {
				continue
			}
			err := r.restoreFrom(ctx, t, key)
			t.unpin(key)
			return have, err
		}
	}
	return 0, nil
}

func (r *llamaRun) restoreFrom(ctx context.Context, t *llamaTier, key string) error {
	at := filepath.Join(r.worker.SaveDir, r.file)
	if err := duplicate(t.path(key), at); err != nil {
		return err
	}
	defer os.Remove(at)
	begin := time.Now()
	_, err := r.worker.client.Restore(ctx, r.worker.Slot, r.file)
	r.spent.GPUSeconds += time.Since(begin).Seconds()
	if errors.Is(err, llama.ErrRefused) {
		err = errors.Join(err, t.drop(key))
	}
	return err
}
