package live

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// plan is a request that was decided: what runs where.
type plan struct {
	request  *Request
	prompt   []int32
	at       time.Time
	decision schema.Decision
	chosen   *schema.Candidate

	worker *worker
	slot   int
	place  *place
	file   string // that a fetch moves; "" for none
	held   int64  // tokens that the slot holds before the prompt is computed
}

// decide lists the candidates, lets the policy choose, and takes a place in the
// chosen worker's line.
func (f *Fleet) decide(i int, r *Request, since time.Time, o *Options) (*plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := f.cfg.BlockTokens
	prompt := len(r.Blocks)*size + r.Suffix
	if r.Suffix < 1 || prompt+r.Generate > f.cfg.Context {
		return nil, fmt.Errorf("request %s: %d tokens after its blocks, %d in all: give 1 or more, and at most %d", r.ID, r.Suffix, prompt, f.cfg.Context)
	}
	p := &plan{request: r, at: time.Now()}
	p.prompt = append(f.vocab.Prefix(r.Blocks, size, len(r.Blocks)*size), f.vocab.Suffix(r.ID, "", r.Suffix)...)
	q := &fleet.Query{
		Index: i, Now: p.at.Sub(since).Seconds(), Model: Model, GPU: GPU, PromptTokens: int64(prompt),
	}
	home := f.workers[r.Home%len(f.workers)]
	name, stored := f.tier.longest(r.Blocks)
	f.candidates(q, r, home, len(stored.blocks), stored.bytes)
	chosen := o.Decide(q)
	p.decision = schema.Decision{
		Policy: o.Policy, Chosen: schema.Some(int64(chosen)), Model: Model, GPU: GPU, Candidates: q.Candidates,
		TokensPrompt: schema.Some(q.PromptTokens), TokensPrefix: schema.Some(q.PrefixTokens), PrefixBlocks: r.Blocks,
		LinkFlows: schema.Some(int64(q.View.Own)), WorkerActive: schema.Some(int64(0)), StateAge: schema.Some(0.0),
	}
	p.chosen = &p.decision.Candidates[chosen]
	return p, f.commit(p, name)
}

// commit takes the place and the slot of the choice.
func (f *Fleet) commit(p *plan, file string) error {
	c, d := p.chosen, &p.decision
	d.Path, d.Worker, d.SourceWorker, d.SourceTier = c.Path, c.Worker, c.Source, c.Tier
	for _, w := range f.workers {
		if w.Name == c.Worker {
			p.worker = w
		}
	}
	if c.Path == schema.PathFetch {
		d.Link = p.worker.Link
		// A name of the request's own: the tier may drop the file meanwhile.
		p.file = filepath.Join(f.tier.dir, p.request.ID+".fetch")
		if err := os.Link(f.tier.path(file), p.file); err != nil {
			return fmt.Errorf("fetch of request %s: %w", p.request.ID, err)
		}
	}
	p.held = c.TokensResident + c.TokensFetched
	d.TokensReused = schema.Some(p.held)
	p.slot = p.worker.choose(p.request.Blocks, c.TokensResident > 0)
	p.worker.tick++
	p.worker.slots[p.slot] = slot{blocks: p.request.Blocks, used: p.worker.tick}
	p.place = p.worker.line.join(c.TTFT - c.GPUQueue)
	return nil
}

// choose picks the slot that holds most of the blocks where that is reused, else
// the one not used for longest.
func (w *worker) choose(blocks []int64, reuse bool) int {
	best := 0
	for i := range w.slots {
		a, b := &w.slots[i], &w.slots[best]
		if reuse {
			if common(a.blocks, blocks) > common(b.blocks, blocks) {
				best = i
			}
		} else if a.used < b.used {
			best = i
		}
	}
	return best
}

func (w *worker) resident(blocks []int64) int {
	most := 0
	for i := range w.slots {
		most = max(most, common(w.slots[i].blocks, blocks))
	}
	return most
}

// candidates lists the ways in which a request could run: recompute (or resident),
// fetch, route.
func (f *Fleet) candidates(q *fleet.Query, r *Request, home *worker, stored int, bytes int64) {
	size := int64(f.cfg.BlockTokens)
	base := f.candidate(home, schema.PathRecompute, int64(home.resident(r.Blocks))*size, 0, q.PromptTokens)
	q.Link = home.Link
	q.View = cost.View{Own: float64(home.link.Flows()), Coordinators: 1}
	var holder *worker
	most := home.resident(r.Blocks)
	for _, w := range f.workers {
		if n := w.resident(r.Blocks); n > most {
			holder, most = w, n
		}
	}
	q.PrefixTokens = int64(max(most, stored)) * size
	if base.TokensResident > 0 && q.PrefixTokens == base.TokensResident {
		base.Path, base.Tier = schema.PathResident, schema.TierGPU
	}
	q.Candidates = append(q.Candidates, base)
	if int64(stored)*size > base.TokensResident {
		c := f.candidate(home, schema.PathFetch, 0, int64(stored)*size, q.PromptTokens)
		c.Bytes, c.Source, c.Tier, c.Links = bytes, "store", Tier, home.Link
		q.Candidates = append(q.Candidates, c)
	}
	if holder != nil {
		c := f.candidate(holder, schema.PathRoute, int64(most)*size, 0, q.PromptTokens)
		c.Source, c.Tier = holder.Name, schema.TierGPU
		q.Candidates = append(q.Candidates, c)
	}
	q.Active = make([]int, len(q.Candidates))
}

func (f *Fleet) candidate(w *worker, path schema.Path, resident, fetched, prompt int64) schema.Candidate {
	nan := math.NaN()
	c := schema.Candidate{
		Path: path, Worker: w.Name, TokensResident: resident, TokensFetched: fetched, TokensComputed: prompt - resident - fetched,
		Bytes: -1, GPUQueue: w.line.backlog(),
		TransferQueue: nan, Bandwidth: nan, Restore: nan, Recompute: nan, TTFT: nan, Externality: nan, Propensity: nan,
	}
	return c
}
