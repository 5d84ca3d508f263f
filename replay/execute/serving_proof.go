package execute

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
)

// counters are what an engine did since it started, over all its requests.
type counters struct {
	finished  float64 // requests
	generated float64 // tokens
	local     float64 // prompt tokens found in its own cache
	external  float64 // prompt tokens found in a cache beside it
	asked     float64 // prompt tokens looked up there; stays 0 where there is none
	running   float64 // requests that it is at or that wait, now

	queueCount, queueSum     float64 // requests, seconds: of their wait for the GPU
	prefillCount, prefillSum float64 // of their prefill
}

// reused is what is known of one request.
type reused struct {
	local, external int64 // prompt tokens; −1: not known
	cached          int64 // both; −1: not known
	others          float64
	counted         bool           // others is known
	asked           float64        // prompt tokens looked up in a cache beside the engine; of the request where nobody else ran
	queue, prefill  schema.Seconds // as the engine measured them
}

const (
	countersWait  = 3 * time.Second
	countersEvery = 10 * time.Millisecond
)

// watched asks, and reads the engine's counters before and after.
func watched(ctx context.Context, e engine, q question) (served, reused, error) {
	before, err := e.counters(ctx)
	if err != nil {
		return served{}, reused{}, fmt.Errorf("read the metrics: %w", err)
	}
	a, err := e.ask(ctx, q)
	if err != nil {
		return a, reused{}, err
	}
	if a.prompt >= 0 && a.prompt != int64(len(q.prompt)) {
		return a, reused{}, fmt.Errorf("%w: the server counts %d prompt tokens of %d that were sent", errAnswer, a.prompt, len(q.prompt))
	}
	after, err := settled(ctx, e, before)
	if err != nil {
		return a, reused{}, fmt.Errorf("read the metrics: %w", err)
	}
	return a, compared(&a, before, after), nil
}

// settled reads the counters once they hold one request more: an engine may count
// a request a moment after it has answered.
func settled(ctx context.Context, e engine, before *counters) (*counters, error) {
	if before == nil {
		return nil, nil
	}
	until := time.Now().Add(countersWait)
	for {
		after, err := e.counters(ctx)
		if err != nil || after == nil || after.finished > before.finished || time.Now().After(until) {
			return after, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(countersEvery):
		}
	}
}

// compared is what an answer and the counters around it say of the request. The
// difference of counters is the request's own only where no other ran.
func compared(a *served, before, after *counters) reused {
	r := reused{local: a.local, external: a.external, cached: a.cached}
	if before == nil || after == nil {
		return r
	}
	r.counted = true
	r.others = max(0, after.finished-before.finished-1) + max(0, after.generated-before.generated-1) + max(0, before.running, after.running)
	r.asked = after.asked - before.asked
	if r.others > 0 || after.finished != before.finished+1 {
		return r
	}
	if r.local < 0 {
		r.local, r.external = int64(after.local-before.local), int64(after.external-before.external)
	}
	if r.cached < 0 {
		r.cached = r.local + r.external
	}
	if after.queueCount == before.queueCount+1 {
		r.queue = schema.Some(max(0, after.queueSum-before.queueSum))
	}
	if after.prefillCount == before.prefillCount+1 {
		r.prefill = schema.Some(max(0, after.prefillSum-before.prefillSum))
	}
	return r
}

// forced says why a leg did not run as it was to: with resident tokens found in
// the engine's own cache and fetched ones beside it, each short of that by less
// than a block of it, for caches hold whole blocks.
func (r *reused) forced(resident, fetched, block, externalBlock int) error {
	if r.counted && r.others > 0 && r.local < 0 {
		if fetched > 0 {
			return fmt.Errorf("%w: other requests blur the counters: nothing shows that the hit was beside the engine", ErrUnavailable)
		}
		return r.cachedOnly(resident, block)
	}
	if r.local < 0 {
		return r.cachedOnly(resident+fetched, block)
	}
	if r.cached >= 0 && r.cached != r.local+r.external {
		return fmt.Errorf("%w: the answer says that %d tokens were reused, the counters %d and %d beside the engine", ErrNotForced, r.cached, r.local, r.external)
	}
	if !short(r.local, resident, block) || !short(r.external, fetched, externalBlock) {
		return fmt.Errorf("%w: the engine found %d tokens in its own cache and %d beside it, the leg asks for %d and %d", ErrNotForced, r.local, r.external, resident, fetched)
	}
	return nil
}

// cachedOnly judges by the sum alone.
func (r *reused) cachedOnly(resident, block int) error {
	if r.cached < 0 && resident > 0 {
		return fmt.Errorf("%w: the server does not say how many tokens it reused: start vLLM with --enable-prompt-tokens-details", ErrNotForced)
	}
	if r.cached >= 0 && !short(r.cached, resident, block) {
		return fmt.Errorf("%w: the server reused %d tokens, the leg asks for %d", ErrNotForced, r.cached, resident)
	}
	return nil
}

// short is true where got is all whole blocks of want, and some of it.
func short(got int64, want, block int) bool {
	if want == 0 {
		return got == 0
	}
	return got > 0 && got <= int64(want) && int64(want)-got < int64(max(1, block))
}
