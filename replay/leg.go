package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// legID names a leg: a decision has at most one of each kind, whatever plan drew
// it, so that a change of plan does not run it twice.
func legID(part *schema.Part, kind schema.Leg) string {
	id := part.RowID()
	sum := sha256.Sum256(append(id[:], byte(kind)))
	return hex.EncodeToString(sum[:16])
}

// legOf makes the leg of a draw.
func legOf(plan *sample.Plan, part *schema.Part, d sample.Draw, batch string) execute.Leg {
	c := part.Decision.Candidates[d.Candidate]
	l := execute.Leg{
		ID: legID(part, d.Leg), Kind: d.Leg, Of: part.Trace, OfSpan: part.Span,
		Plan: plan.ID(), Stratum: d.Stratum.String(), Batch: batch, Inclusion: d.Inclusion,
		Path: d.Path, CandidateIndex: d.Candidate, Candidate: c,
		Model: part.Decision.Model, GPU: part.Decision.GPU, Link: linkOf(&c),
		TokensPrompt: part.Decision.TokensPrompt.Or(-1), TokensPrefix: part.Decision.TokensPrefix.Or(-1),
		PrefixBlocks: slices.Clone(part.Decision.PrefixBlocks), DecidedNanos: part.StartNanos,
		Decision: stateAtDecision(&part.Decision, &c),
	}
	l.Salt = plan.LegSalt(l.ID)
	l.ModelDecision = execute.Predict(&c, l.Decision, l.Decision)
	return l
}

// linkOf is the link that a candidate's bytes go over, "" where none do.
func linkOf(c *schema.Candidate) string {
	if c.Bytes <= 0 {
		return ""
	}
	first, _, _ := strings.Cut(c.Links, "+")
	return first
}

// stateAtDecision is the load that the candidate was predicted at: its own
// worker's queue, and the flows of the decision where they are those of its link.
func stateAtDecision(d *schema.Decision, c *schema.Candidate) execute.State {
	s := execute.State{GPUQueue: c.GPUQueue, Flows: math.NaN()}
	if link := linkOf(c); d.LinkFlows.OK && (d.Link == "" || link == "" || d.Link == link) {
		s.Flows = float64(d.LinkFlows.V)
	}
	return s
}

// chargeOf is what a leg is expected to take from the budget.
func chargeOf(l *execute.Leg) budget.Charge { return charge(l, l.Estimate()) }

func charge(l *execute.Leg, c execute.Cost) budget.Charge {
	return budget.Charge{Worker: l.Candidate.Worker, GPUSeconds: c.GPUSeconds, Link: l.Link, Bytes: c.Bytes}
}

// productionCost is what a request itself took: observed where it was, else
// predicted.
func productionCost(part *schema.Part) budget.Charge {
	d, o := &part.Decision, &part.Observed
	out := budget.Charge{Worker: d.Worker, Link: d.Link, GPUSeconds: o.Prefill.Or(0) + o.Restore.Or(0), Bytes: float64(o.Bytes.Or(0))}
	if !d.Chosen.OK || d.Chosen.V < 0 || d.Chosen.V >= int64(len(d.Candidates)) {
		return out
	}
	c := &d.Candidates[d.Chosen.V]
	predicted := execute.Leg{Candidate: *c}
	if !o.Prefill.OK {
		out.GPUSeconds = predicted.Estimate().GPUSeconds
	}
	if !o.Bytes.OK {
		out.Bytes = predicted.Estimate().Bytes
	}
	if out.Link == "" {
		out.Link = linkOf(c)
	}
	return out
}

// partOf is the replay part of a finished leg. Its identifiers are the leg's, so
// a part that is emitted twice is one.
func partOf(l *execute.Leg, r *execute.Result) schema.Part {
	p := schema.Part{
		Kind: schema.KindReplay, Adapter: "kvreuse", Service: "kvwhatif-replay",
		StartNanos: r.StartNanos, EndNanos: r.EndNanos, RequestID: schema.ReplayRequestIDPrefix + l.ID,
		Observed: r.Observed,
		Decision: schema.Decision{
			Path: l.Path, Model: l.Model, GPU: l.GPU, Worker: l.Candidate.Worker, SourceWorker: l.Candidate.Source,
			SourceTier: l.Candidate.Tier, Link: l.Link, TokensPrompt: known(l.TokensPrompt), TokensPrefix: known(l.TokensPrefix),
		},
		Replay: schema.Replay{
			Of: l.Of, OfSpan: l.OfSpan, Plan: l.Plan, Path: l.Path, Candidate: schema.Some(int64(l.CandidateIndex)),
			Inclusion: l.Inclusion, Leg: l.Kind, Batch: l.Batch,
			DecisionGPUQueue: seconds(l.Decision.GPUQueue), DecisionFlows: count(l.Decision.Flows),
			ReplayGPUQueue: seconds(r.State.GPUQueue), ReplayFlows: count(r.State.Flows),
			ModelDecision: seconds(l.ModelDecision), ModelReplay: r.ModelReplay,
			CostGPU: seconds(r.Cost.GPUSeconds), CostBytes: count(r.Cost.Bytes),
		},
	}
	if !p.Replay.ModelReplay.OK {
		p.Replay.ModelReplay = seconds(execute.Predict(&l.Candidate, l.Decision, r.State))
	}
	raw, _ := hex.DecodeString(l.ID)
	copy(p.Trace[:], raw)
	sum := sha256.Sum256(raw)
	copy(p.Span[:], sum[:])
	return p
}

func known(n int64) schema.Count {
	if n < 0 {
		return schema.Count{}
	}
	return schema.Some(n)
}

func seconds(x float64) schema.Seconds {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return schema.Seconds{}
	}
	return schema.Some(x)
}

func count(x float64) schema.Count {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return schema.Count{}
	}
	return schema.Some(int64(math.Round(x)))
}
