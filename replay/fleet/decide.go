package fleet

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Query is what a coordinator knows when it decides one request.
type Query struct {
	Index        int     // of the request among those given to New
	Now          float64 // seconds after the run's start
	Model        string
	GPU          string
	PromptTokens int64
	PrefixTokens int64     // that somebody holds
	Coordinator  int       // which one decides
	Link         string    // the shared link
	View         cost.View // of the link: own transfers exactly, others' when last heard

	// Candidates holds every way in which the request could run. The facts are
	// filled in: path, worker, source, tier, links, tokens, bytes and the GPU queue
	// that the worker reports. The decider fills in what it predicts (a NaN stays
	// "not applicable") and each Propensity.
	Candidates []schema.Candidate
	Active     []int // requests decoding on each candidate's worker
}

// Decider picks one of q.Candidates by index (one out of range panics) and fills in
// its predictions. It must depend on q and its own past only. q is valid during the call;
// q.Candidates is kept, with what the decider wrote, in the Outcome.
type Decider func(q *Query) int

// option is a candidate as the simulator runs it.
type option struct {
	path     schema.Path
	half     bool // fetches half of what could be fetched
	worker   int32
	source   int32 // a worker, or fromStore, or fromNowhere
	resident int32 // tokens
	fetched  int32
	computed int32
}

const (
	fromNowhere = -1
	fromStore   = -2
)

// draws keys the noise of an option: the path, and which fetch.
func (o option) draws() uint64 {
	if o.half {
		return uint64(o.path) | 1<<8
	}
	return uint64(o.path)
}

// home picks the worker that a request is meant for: the one with less to do of
// two that a hash names, of the conversation with probability Affinity, else of
// the request.
func (s *Sim) home(a *arrival) int32 {
	h := key(s.cfg.Seed, uint64(a.index), 0, stageHome)
	if len(a.blocks) > 0 && uniform(key(s.cfg.Seed, uint64(a.index), 0, stageAffinity)) < s.cfg.Affinity {
		h = key(s.cfg.Seed, uint64(a.blocks[min(1, len(a.blocks)-1)]), 1, stageHome)
	}
	n := uint64(s.cfg.Workers)
	x, y := int32(h%n), int32((h/n)%n)
	if s.backlog(y, a.at) < s.backlog(x, a.at) {
		return y
	}
	return x
}

func (s *Sim) backlog(worker int32, t float64) float64 {
	return s.core.workers[worker].backlog(&s.core, t)
}

// options lists every way in which a request could run, in a fixed order:
// recompute (or resident), half fetch, fetch, route.
func (s *Sim) options(a *arrival, into []option) []option {
	prompt := int32(s.requests[a.index].PromptTokens)
	usable := min(len(a.blocks), int(prompt-1)/BlockTokens) // at least one token is computed
	home := s.home(a)
	p := s.caches.find(a.blocks[:usable], home)
	base := option{path: schema.PathRecompute, worker: home, source: fromNowhere, resident: int32(p.home) * BlockTokens}
	base.computed = prompt - base.resident
	fetch := base
	fetch.path, fetch.source = schema.PathFetch, fromStore
	held := p.store
	best := s.leastLoaded(p.holders, a.at)
	if p.best > held {
		held, fetch.source = p.best, best
	}
	if held <= p.home {
		if p.home > 0 {
			base.path = schema.PathResident
		}
		return append(into, base)
	}
	into = append(into, base)
	if half := (held - p.home) / 2; half > 0 {
		into = append(into, fetch.take(int32(half)))
		into[len(into)-1].half = true
	}
	into = append(into, fetch.take(int32(held-p.home)))
	if p.best > p.home {
		route := option{path: schema.PathRoute, worker: best, source: best, resident: int32(p.best) * BlockTokens}
		route.computed = prompt - route.resident
		into = append(into, route)
	}
	return into
}

// take makes a fetch of blocks.
func (o option) take(blocks int32) option {
	o.fetched = blocks * BlockTokens
	o.computed -= o.fetched
	return o
}

func (s *Sim) leastLoaded(set uint64, t float64) int32 {
	best, least := int32(0), math.Inf(1)
	eachWorker(set, func(w int32) {
		if b := s.backlog(w, t); b < least {
			best, least = w, b
		}
	})
	return best
}

// describe writes an option as the candidate that a coordinator sees.
func (s *Sim) describe(o option, index int32, now float64) schema.Candidate {
	c := schema.Candidate{
		Path: o.path, Worker: s.names[o.worker],
		TokensResident: int64(o.resident), TokensFetched: int64(o.fetched), TokensComputed: int64(o.computed),
		Bytes:         int64(float64(o.fetched) * s.cfg.BytesPerToken),
		GPUQueue:      s.report(o.worker, uint64(index), now),
		TransferQueue: math.NaN(), Bandwidth: math.NaN(), Restore: math.NaN(), Recompute: math.NaN(),
		TTFT: math.NaN(), Externality: math.NaN(), Propensity: math.NaN(),
	}
	switch {
	case o.source == fromStore:
		c.Source, c.Tier = "store", s.cfg.Link.Tier
	case o.source >= 0:
		c.Source, c.Tier = s.names[o.source], schema.TierPeer
	}
	switch o.path {
	case schema.PathFetch:
		c.Links = s.cfg.Link.Name
	case schema.PathRoute, schema.PathResident:
		c.Tier = schema.TierGPU
	}
	return c
}

// report is the GPU queue that a worker reports: its own estimate, imprecise.
func (s *Sim) report(worker int32, id uint64, now float64) float64 {
	h := key(s.cfg.Seed, id, uint64(worker), stageReport)
	return s.backlog(worker, now) * lognormal(h, s.cfg.Noise.Report)
}

// draw makes a job of an option. The same seed and id give the same job.
func (s *Sim) draw(seed, id uint64, o option, at float64, output int64) job {
	n, path := &s.cfg.Noise, o.draws()
	compute := s.ladder.seconds(float64(o.computed), float64(o.resident+o.fetched))
	j := job{
		worker: o.worker, at: at, enqueue: at, weight: 1,
		prefill: compute * lognormal(key(seed, id, path, stagePrefill), n.Prefill),
		chunks:  math.Max(1, math.Ceil(float64(o.computed)/s.cfg.ChunkTokens)),
		decode:  float64(output) * s.cfg.TPOT * lognormal(key(seed, id, path, stageDecode), n.Decode),
	}
	if o.path == schema.PathRoute {
		j.enqueue += s.cfg.Hop
	}
	if o.fetched > 0 {
		j.bytes = float64(o.fetched) * s.cfg.BytesPerToken
		j.flowAt = at + s.cfg.Link.T0*lognormal(key(seed, id, path, stageFixed), n.Fixed)
		j.weight = lognormal(key(seed, id, path, stageShare), s.cfg.Link.Shares)
		j.restore = s.cfg.Restore.Seconds(j.bytes) * lognormal(key(seed, id, path, stageRestore), n.Restore)
	}
	j.estimate = compute + s.cfg.Restore.Seconds(j.bytes)
	return j
}
