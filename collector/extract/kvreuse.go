package extract

import (
	"encoding/hex"

	"github.com/kvwhatif/kvwhatif/schema"
)

// kvreuse reads the contract span, and the legs of replays, which are contract
// spans with attributes of their own.
var kvreuse = adapter{
	name:   "kvreuse",
	span:   schema.SpanName,
	kind:   schema.KindContract,
	rules:  rulesOf(merge(decisionRules, observedRules, candidateRules, replayRules)),
	finish: finishContract,
}

func merge(all ...sets) sets {
	out := make(sets)
	for _, s := range all {
		for key, set := range s {
			out[key] = set
		}
	}
	return out
}

var decisionRules = sets{
	schema.AttrPolicy:       text(func(p *schema.Part) *string { return &p.Decision.Policy }),
	schema.AttrRevision:     integer(func(p *schema.Part) *int64 { return &p.Decision.Revision }),
	schema.AttrRequestID:    text(func(p *schema.Part) *string { return &p.RequestID }),
	schema.AttrTenant:       text(func(p *schema.Part) *string { return &p.Decision.Tenant }),
	schema.AttrPath:         name(schema.ParsePath, func(p *schema.Part) *schema.Path { return &p.Decision.Path }),
	schema.AttrChosen:       by(chosen),
	schema.AttrModel:        text(func(p *schema.Part) *string { return &p.Decision.Model }),
	schema.AttrGPU:          text(func(p *schema.Part) *string { return &p.Decision.GPU }),
	schema.AttrWorker:       text(func(p *schema.Part) *string { return &p.Decision.Worker }),
	schema.AttrSourceWorker: text(func(p *schema.Part) *string { return &p.Decision.SourceWorker }),
	schema.AttrSourceTier:   name(schema.ParseTier, func(p *schema.Part) *schema.Tier { return &p.Decision.SourceTier }),
	schema.AttrLink:         text(func(p *schema.Part) *string { return &p.Decision.Link }),
	schema.AttrTokensPrompt: count(func(p *schema.Part) *schema.Count { return &p.Decision.TokensPrompt }),
	schema.AttrTokensPrefix: count(func(p *schema.Part) *schema.Count { return &p.Decision.TokensPrefix }),
	schema.AttrTokensReused: count(func(p *schema.Part) *schema.Count { return &p.Decision.TokensReused }),
	schema.AttrLinkFlows:    count(func(p *schema.Part) *schema.Count { return &p.Decision.LinkFlows }),
	schema.AttrWorkerActive: count(func(p *schema.Part) *schema.Count { return &p.Decision.WorkerActive }),
	schema.AttrStateAge:     seconds(func(p *schema.Part) *schema.Seconds { return &p.Decision.StateAge }),
	schema.AttrPrefixBlocks: by(prefixBlocks),

	schema.AttrGenAIModel:       by(func(r *reading, v Value) *fault { return r.text(v, &r.genAI.model) }),
	schema.AttrGenAIInputTokens: by(func(r *reading, v Value) *fault { return r.count(v, &r.genAI.prompt, r.limits.Count) }),
	schema.AttrGenAICacheRead:   by(func(r *reading, v Value) *fault { return r.count(v, &r.genAI.cached, r.limits.Count) }),
}

var observedRules = sets{
	schema.AttrBytes:         size(func(p *schema.Part) *schema.Count { return &p.Observed.Bytes }),
	schema.AttrGPUQueue:      seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.GPUQueue }),
	schema.AttrTransferQueue: seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.TransferQueue }),
	schema.AttrTransfer:      seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.Transfer }),
	schema.AttrTransferStart: seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.TransferStart }),
	schema.AttrExposedStall:  seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.ExposedStall }),
	schema.AttrRestore:       seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.Restore }),
	schema.AttrPrefill:       seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.Prefill }),
	schema.AttrTTFT:          seconds(func(p *schema.Part) *schema.Seconds { return &p.Observed.TTFT }),
}

var candidateRules = sets{
	schema.AttrCandidatePath:           names(schema.ParsePath, func(c *schema.Candidate) *schema.Path { return &c.Path }),
	schema.AttrCandidateTier:           names(schema.ParseTier, func(c *schema.Candidate) *schema.Tier { return &c.Tier }),
	schema.AttrCandidateWorker:         texts(func(c *schema.Candidate) *string { return &c.Worker }),
	schema.AttrCandidateSource:         texts(func(c *schema.Candidate) *string { return &c.Source }),
	schema.AttrCandidateLinks:          texts(func(c *schema.Candidate) *string { return &c.Links }),
	schema.AttrCandidateTokensResident: integers(tokens, func(c *schema.Candidate) *int64 { return &c.TokensResident }),
	schema.AttrCandidateTokensFetched:  integers(tokens, func(c *schema.Candidate) *int64 { return &c.TokensFetched }),
	schema.AttrCandidateTokensComputed: integers(tokens, func(c *schema.Candidate) *int64 { return &c.TokensComputed }),
	schema.AttrCandidateBytes:          integers(bytesOf, func(c *schema.Candidate) *int64 { return &c.Bytes }),
	schema.AttrCandidateGPUQueue:       durations(func(c *schema.Candidate) *float64 { return &c.GPUQueue }),
	schema.AttrCandidateTransferQueue:  durations(func(c *schema.Candidate) *float64 { return &c.TransferQueue }),
	schema.AttrCandidateBandwidth:      floats(rate, func(c *schema.Candidate) *float64 { return &c.Bandwidth }),
	schema.AttrCandidateRestore:        durations(func(c *schema.Candidate) *float64 { return &c.Restore }),
	schema.AttrCandidateRecompute:      durations(func(c *schema.Candidate) *float64 { return &c.Recompute }),
	schema.AttrCandidateTTFT:           durations(func(c *schema.Candidate) *float64 { return &c.TTFT }),
	// A flow that makes others wait elsewhere can take more off than it puts on.
	schema.AttrCandidateExternality: floats(delay, func(c *schema.Candidate) *float64 { return &c.Externality }),
	// 0: the policy never takes it.
	schema.AttrCandidatePropensity: floats(share, func(c *schema.Candidate) *float64 { return &c.Propensity }),
}

var replayRules = sets{
	schema.AttrReplayOf:        leg(by(func(r *reading, v Value) *fault { return r.hexID(v, r.p.Replay.Of[:]) })),
	schema.AttrReplaySpan:      leg(by(func(r *reading, v Value) *fault { return r.hexID(v, r.p.Replay.OfSpan[:]) })),
	schema.AttrReplayPlan:      leg(text(func(p *schema.Part) *string { return &p.Replay.Plan })),
	schema.AttrReplayPath:      leg(name(schema.ParsePath, func(p *schema.Part) *schema.Path { return &p.Replay.Path })),
	schema.AttrReplayCandidate: leg(count(func(p *schema.Part) *schema.Count { return &p.Replay.Candidate })),
	schema.AttrReplayInclusion: leg(by(func(r *reading, v Value) *fault { return probability(v, &r.p.Replay.Inclusion) })),
	schema.AttrReplayLeg:       leg(name(schema.ParseLeg, func(p *schema.Part) *schema.Leg { return &p.Replay.Leg })),
	schema.AttrReplayBatch:     leg(text(func(p *schema.Part) *string { return &p.Replay.Batch })),

	schema.AttrReplayStateDecisionGPUQueue: leg(seconds(func(p *schema.Part) *schema.Seconds { return &p.Replay.DecisionGPUQueue })),
	schema.AttrReplayStateDecisionFlows:    leg(count(func(p *schema.Part) *schema.Count { return &p.Replay.DecisionFlows })),
	schema.AttrReplayStateReplayGPUQueue:   leg(seconds(func(p *schema.Part) *schema.Seconds { return &p.Replay.ReplayGPUQueue })),
	schema.AttrReplayStateReplayFlows:      leg(count(func(p *schema.Part) *schema.Count { return &p.Replay.ReplayFlows })),
	schema.AttrReplayModelDecision:         leg(seconds(func(p *schema.Part) *schema.Seconds { return &p.Replay.ModelDecision })),
	schema.AttrReplayModelReplay:           leg(seconds(func(p *schema.Part) *schema.Seconds { return &p.Replay.ModelReplay })),
	schema.AttrReplayGPUSeconds:            leg(seconds(func(p *schema.Part) *schema.Seconds { return &p.Replay.CostGPU })),
	schema.AttrReplayLinkBytes:             leg(size(func(p *schema.Part) *schema.Count { return &p.Replay.CostBytes })),
}

// chosen reads the index of the choice; finishContract compares it with the
// candidates, which may come later.
func chosen(r *reading, v Value) *fault {
	r.p.Decision.Chosen.OK = true
	if v.Type != TypeInt {
		return wrongType(v, TypeInt)
	}
	r.p.Decision.Chosen.V = v.Int()
	return nil
}

func prefixBlocks(r *reading, v Value) *fault {
	if v.Type != TypeArray {
		return wrongType(v, TypeArray)
	}
	d, es := &r.p.Decision, v.Elements()
	var e Value
	for more, err := es.Next(&e); more || err != nil; more, err = es.Next(&e) {
		switch {
		case err != nil:
			return faultf(CodeUndecodable, "element %d can not be read: %v", len(d.PrefixBlocks), err)
		case e.Type != TypeInt:
			return wrongType(e, TypeInt)
		case len(d.PrefixBlocks) == r.limits.Blocks:
			return faultf(CodeSize, "more than %d blocks", r.limits.Blocks)
		}
		d.PrefixBlocks = append(d.PrefixBlocks, e.Int())
	}
	return nil
}

// hexID reads an identifier written as hex digits.
func (r *reading) hexID(v Value, dst []byte) *fault {
	var s string
	if f := r.text(v, &s); f != nil {
		return f
	}
	if len(s) != 2*len(dst) {
		return faultf(CodeIdentifier, "%d characters, not %d hex digits", len(s), 2*len(dst))
	}
	if _, err := hex.Decode(dst, v.b); err != nil || allZero(dst) {
		return faultf(CodeIdentifier, "%q is no identifier in hex digits", s)
	}
	return nil
}

func finishContract(r *reading) *fault {
	d := &r.p.Decision
	if d.Model == "" {
		d.Model = r.genAI.model
	}
	if !d.TokensPrompt.OK {
		d.TokensPrompt = r.genAI.prompt
	}
	if !d.TokensReused.OK {
		d.TokensReused = r.genAI.cached
	}
	if f := checkChoice(d); f != nil {
		return f
	}
	if r.replay {
		r.p.Kind = schema.KindReplay
		return checkLeg(&r.p.Replay)
	}
	return nil
}

// checkTokens refuses sizes that contradict each other.
func checkTokens(d *schema.Decision) *fault {
	for _, part := range [...]struct {
		name string
		n    schema.Count
	}{{schema.AttrTokensPrefix, d.TokensPrefix}, {schema.AttrTokensReused, d.TokensReused}} {
		if d.TokensPrompt.OK && part.n.OK && part.n.V > d.TokensPrompt.V {
			return faultf(CodeRange, "%s is %d and the prompt has %d tokens", part.name, part.n.V, d.TokensPrompt.V)
		}
	}
	return nil
}

// propensitySlack is how far above 1 rounding may bring the sum of propensities.
const propensitySlack = 1e-6

func checkChoice(d *schema.Decision) *fault {
	sum := 0.0
	for i := range d.Candidates {
		if d.Candidates[i].Path == schema.PathNone {
			return faultf(CodeCandidates, "candidate %d has no path: %s is missing or empty there", i, schema.AttrCandidatePath)
		}
		sum += d.Candidates[i].Propensity
	}
	if sum > 1+propensitySlack { // false where one is not applicable
		return faultf(CodeRange, "%s sums to %v, at most 1", schema.AttrCandidatePropensity, sum)
	}
	if f := checkTokens(d); f != nil {
		return f
	}
	if !d.Chosen.OK {
		return nil
	}
	if d.Chosen.V < 0 || d.Chosen.V >= int64(len(d.Candidates)) {
		return faultf(CodeCandidates, "%s is %d and there are %d candidates", schema.AttrChosen, d.Chosen.V, len(d.Candidates))
	}
	if d.Candidates[d.Chosen.V].Propensity == 0 {
		return faultf(CodeRange, "%s of the chosen candidate is 0, and it was chosen", schema.AttrCandidatePropensity)
	}
	if own := d.Candidates[d.Chosen.V].Path; d.Path != schema.PathNone && own != d.Path {
		return faultf(CodeCandidates, "%s is %q and the chosen candidate's path is %q", schema.AttrPath, d.Path, own)
	}
	return nil
}

// checkLeg refuses a leg that can not be weighed, or that is of no decision.
func checkLeg(p *schema.Replay) *fault {
	switch {
	case p.Of == schema.TraceID{} || p.OfSpan == schema.SpanID{}:
		return faultf(CodeReplay, "a replay needs %s and %s", schema.AttrReplayOf, schema.AttrReplaySpan)
	case p.Leg == schema.LegNone:
		return faultf(CodeReplay, "a replay needs %s: rejected or control", schema.AttrReplayLeg)
	case p.Path == schema.PathNone:
		return faultf(CodeReplay, "a replay needs %s", schema.AttrReplayPath)
	case p.Inclusion == 0:
		return faultf(CodeReplay, "a replay needs %s, in (0, 1]", schema.AttrReplayInclusion)
	}
	return nil
}
