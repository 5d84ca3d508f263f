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
