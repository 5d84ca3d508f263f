package fleet

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Outcome is one request that has had its first token: everything that the
// contract span carries, and what only a simulator knows.
type Outcome struct {
	Index      int     // of the request among those given to New
	At         float64 // decided, seconds after the run's start
	FirstToken float64 // seconds after the run's start
	Decision   schema.Decision
	Observed   schema.Observed
	Decode     float64 // from the first token to the last, before interference, seconds

	// Hop is what no stage of the contract holds: TTFT = GPUQueue + ExposedStall +
	// Restore + Prefill + Hop.
	Hop         float64
	Coordinator int
	TrueFlows   int // on the link at the decision, whatever the coordinator had heard
}

// decision writes what the coordinator knew and chose.
func (s *Sim) decision(q *Query, a *arrival, chosen int) *schema.Decision {
	c := &q.Candidates[chosen]
	d := &schema.Decision{
		Policy: s.cfg.Policy, Path: c.Path, Chosen: schema.Some(int64(chosen)),
		Model: q.Model, GPU: q.GPU, Worker: c.Worker, SourceWorker: c.Source, SourceTier: c.Tier, Link: c.Links,
		TokensPrompt: schema.Some(q.PromptTokens), TokensPrefix: schema.Some(q.PrefixTokens),
		TokensReused: schema.Some(c.TokensResident + c.TokensFetched),
		LinkFlows:    schema.Some(int64(q.View.Own + q.View.Others)),
		WorkerActive: schema.Some(int64(q.Active[chosen])), StateAge: schema.Some(q.View.Age),
		Candidates: q.Candidates,
	}
	blocks := s.requests[a.index].Blocks
	d.PrefixBlocks = blocks[:min(len(blocks), int(q.PrefixTokens/BlockTokens))]
	return d
}

func (s *Sim) outcome(f *finished, e *entry) Outcome {
	j := &s.core.jobs[f.id]
	o := Outcome{
		Index: int(e.request), At: j.at, FirstToken: f.at, Decision: *e.decision,
		Observed: observe(f, j), Decode: j.decode, Hop: j.enqueue - j.at,
		Coordinator: int(e.coord), TrueFlows: e.flows,
	}
	e.decision = nil // the caller owns it now
	return o
}

// observe splits a job's TTFT into the contract's stages. A job that its GPU
// passed over while its transfer was under way stalled from then until its state
// was there; the rest that is neither restoring nor prefill is the GPU's queue.
func observe(f *finished, j *job) schema.Observed {
	it := &f.item
	stall := 0.0
	if it.ready > it.turn {
		stall = it.ready - it.turn
	}
	queue := math.Max(0, f.at-it.enqueue-stall-it.restore-it.prefill)
	o := schema.Observed{
		Bytes:    schema.Some(int64(j.bytes)),
		GPUQueue: schema.Some(queue), ExposedStall: schema.Some(stall),
		Restore: schema.Some(it.restore), Prefill: schema.Some(it.prefill), TTFT: schema.Some(f.at - j.at),
	}
	if j.bytes > 0 {
		o.TransferQueue = schema.Some(j.flowAt - j.at)
		o.TransferStart = o.TransferQueue
		o.Transfer = schema.Some(it.ready - j.flowAt)
	}
	return o
}

// Load is what a run asked of its fleet so far.
type Load struct {
	Eligible    float64 // link: bytes/s over B if every fetchable prefix were fetched
	Offered     float64 // link: bytes/s over B as decided
	GPU         float64 // restoring and prefill seconds over worker seconds
	Kappa       float64 // mean over eligible fetches of recompute time over lone wire time, by bytes
	DecodeDelay float64 // seconds by which prefills held up decodes, summed
	seconds     float64
	eligible    float64
	moved       float64
	gpu         float64
	recompute   float64
}

func (s *Sim) offered(a *arrival, j *job) {
	l := &s.load
	l.seconds = a.at
	l.moved += j.bytes
	l.gpu += j.restore + j.prefill
	for _, o := range s.scratch {
		if o.path == schema.PathFetch && !o.half {
			l.eligible += float64(o.fetched) * s.cfg.BytesPerToken
			l.recompute += s.ladder.at(float64(o.resident+o.fetched)) - s.ladder.at(float64(o.resident))
		}
	}
}

// Load gives the loads from the run's start to the last arrival.
func (s *Sim) Load() Load {
	l, b := s.load, s.cfg.Link.Law.B
	l.DecodeDelay = s.core.decodeDelay
	if l.seconds > 0 {
		l.Eligible, l.Offered = l.eligible/l.seconds/b, l.moved/l.seconds/b
		l.GPU = l.gpu / l.seconds / float64(s.cfg.Workers)
	}
	if l.eligible > 0 {
		l.Kappa = l.recompute * b / l.eligible
	}
	return l
}
