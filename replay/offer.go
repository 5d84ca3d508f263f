package replay

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Offer is Accept, then Due.
func (r *Runner) Offer(now int64, parts []*schema.Part) ([]execute.Leg, error) {
	if err := r.Accept(now, parts); err != nil {
		return nil, err
	}
	return r.Due(now)
}

// Accept draws the legs of decisions, at the instant now (Unix nanoseconds), and
// queues them. When it returns, every leg drawn is in the store, and the parts'
// offsets may be committed. Parts of other kinds are passed over; a decision that
// comes again gives nothing.
func (r *Runner) Accept(now int64, parts []*schema.Part) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var queued []execute.Leg
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
			if why := r.refuse(now, &l, len(queued)); why != "" {
				lines = r.giveUp(lines, now, &l, why)
				continue
			}
			queued = append(queued, l)
			lines = append(lines, line{ID: l.ID, At: now, Leg: &l})
		}
	}
	if len(lines) > 0 {
		if err := r.keep(now, lines...); err != nil {
			return err
		}
	}
	r.queue = append(r.queue, queued...)
	r.look(now)
	return r.adapt(now)
}

// refuse says why a leg is not even to wait.
func (r *Runner) refuse(now int64, l *execute.Leg, queued int) string {
	switch {
	case r.killedNow() != "":
		return dropKilled
	case r.ledger.Expired(l.DecidedNanos, now):
		return dropLate
	case len(r.queue)+queued >= r.cfg.MaxWaiting:
		return dropFull
	}
	return ""
}

// Why legs are dropped.
const (
	dropKilled = "killed"
	dropLate   = "past its deadline"
	dropFull   = "too many waited"
	dropBudget = "over budget"
)

// Due gives the legs that may start now, and charges them. They wait in the order
// of their draw: one that its worker or link can not fund holds back those behind
// it there, so that what does not run in the end is not what is large.
func (r *Runner) Due(now int64) ([]execute.Leg, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look(now)
	killed := r.killedNow() != ""
	var due, left []execute.Leg
	var lines []line
	short := map[string]bool{} // workers and links that some leg waits for
	for _, l := range r.queue {
		switch {
		case killed:
			lines = r.giveUp(lines, now, &l, dropKilled)
		case r.ledger.Expired(l.DecidedNanos, now):
			lines = r.giveUp(lines, now, &l, dropLate)
		case r.lets(len(due)) && r.funded(now, &l, short):
			due = append(due, l)
		default:
			left = append(left, l)
		}
	}
	r.queue = left
	if len(due)+len(lines) == 0 {
		return nil, nil
	}
	return due, r.keep(now, lines...)
}

func (r *Runner) giveUp(lines []line, now int64, l *execute.Leg, why string) []line {
	r.stats.Dropped[why]++
	return append(lines, line{ID: l.ID, At: now, Done: true, Why: why})
}

// funded charges a leg unless it or one before it must wait.
func (r *Runner) funded(now int64, l *execute.Leg, short map[string]bool) bool {
	c := chargeOf(l)
	worker, link := "worker "+c.Worker, "link "+c.Link
	if r.ledger.Pooled() {
		worker = "workers"
	}
	if short[worker] || (c.Link != "" && short[link]) {
		return false
	}
	switch r.ledger.Take(now, c) {
	case budget.ShortGPU:
		short[worker] = true
	case budget.ShortLink:
		short[link] = true
	default:
		return true
	}
	return false
}

// abandon gives up what waits for a budget that nothing will fill any more.
func (r *Runner) abandon(now int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger.Fills() {
		return nil
	}
	var lines []line
	for i := range r.queue {
		lines = r.giveUp(lines, now, &r.queue[i], dropBudget)
	}
	r.queue = nil
	return r.keep(now, lines...)
}

func (r *Runner) draw(now int64, p *schema.Part) []execute.Leg {
	if p.Kind != schema.KindContract {
		return nil
	}
	r.stats.Decisions++
	r.observe(p)
	if !r.ledger.Expired(p.StartNanos, now) { // what is long past funds nothing now
		r.ledger.Earn(now, productionCost(p))
	}
	if why := sample.Eligible(p); why != "" {
		r.stats.Ineligible[why]++
		return nil
	}
	plan := r.plans.At(p.StartNanos)
	if plan == nil {
		r.stats.Ineligible["of a time of another salt"]++
		return nil
	}
	r.learnt.decision(plan, &p.Decision)
	draws := plan.Draw(p)
	legs := make([]execute.Leg, len(draws))
	for i, d := range draws {
		batch := fmt.Sprintf("%s-%d", plan.ID(), now/int64(r.cfg.Batch))
		legs[i] = legOf(plan, p, d, batch)
	}
	return legs
}

func cellOf(l *execute.Leg) budget.Cell {
	size := -1
	if l.TokensPrefix >= 0 {
		size = schema.SizeBucket(l.TokensPrefix)
	}
	return budget.Cell{Stratum: l.Stratum, Size: size, Leg: l.Kind.String(), Path: l.Path.String()}
}
