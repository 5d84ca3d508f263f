package load

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// lastInstant is the last that a DateTime holds, 2106, in nanoseconds.
const lastInstant = int64(math.MaxUint32) * 1e9

const mostSeconds = 1e9 // of any duration: 31 years

// valid refuses a part that the tables can not hold as it is. What is on the
// topic may come from anywhere.
func valid(p *schema.Part) error {
	if p.Trace == (schema.TraceID{}) || p.Span == (schema.SpanID{}) {
		return errors.New("it has no trace id or no span id")
	}
	if p.StartNanos <= 0 || p.StartNanos > lastInstant || p.EndNanos < 0 || p.EndNanos > lastInstant {
		return fmt.Errorf("its start (%d ns) or end (%d ns) is not between 1970 and 2106", p.StartNanos, p.EndNanos)
	}
	return errors.Join(validCounts(p), validSeconds(p), validCandidates(p), validReplay(p))
}

// mostCount is what the column of a count of a View holds.
var mostCount = [wire.Counts]int64{wire.CountChosen: math.MaxUint8, wire.CountTokensPrompt: math.MaxUint32,
	wire.CountTokensPrefix: math.MaxUint32, wire.CountTokensReused: math.MaxUint32, wire.CountLinkFlows: math.MaxUint32,
	wire.CountWorkerActive: math.MaxUint32, wire.CountBytes: math.MaxInt64}

// validView is valid for what a View reads, without a word of what is wrong.
func validView(v *wire.View) bool {
	ok := v.Trace != (schema.TraceID{}) && v.Span != (schema.SpanID{}) && v.StartNanos > 0 && v.StartNanos <= lastInstant &&
		v.EndNanos >= 0 && v.EndNanos <= lastInstant
	for has := v.HasCounts; has != 0; has &= has - 1 {
		i := bits.TrailingZeros32(has)
		ok = ok && v.Counts[i] >= 0 && v.Counts[i] <= mostCount[i]
	}
	for has := v.HasSeconds; has != 0; has &= has - 1 {
		ok = ok && math.Abs(v.Seconds[bits.TrailingZeros32(has)]) <= mostSeconds
	}
	for i := range v.Candidates {
		c := &v.Candidates[i]
		ok = ok && within32(c.TokensResident) && within32(c.TokensFetched) && within32(c.TokensComputed) && c.Bytes >= -1
	}
	return ok
}

func within32(tokens int64) bool { return tokens >= -1 && tokens <= math.MaxInt32 }

func validCounts(p *schema.Part) error {
	d, o, e, t, r := &p.Decision, &p.Observed, &p.Engine, &p.Transfer, &p.Replay
	for _, c := range [...]struct {
		name  string
		value schema.Count
		most  int64
	}{
		{"chosen", d.Chosen, math.MaxUint8},
		{"tokens.prompt", d.TokensPrompt, math.MaxUint32}, {"tokens.prefix", d.TokensPrefix, math.MaxUint32},
		{"tokens.reused", d.TokensReused, math.MaxUint32}, {"link.flows", d.LinkFlows, math.MaxUint32},
		{"worker.active", d.WorkerActive, math.MaxUint32}, {"bytes", o.Bytes, math.MaxInt64},
		{"engine's prompt tokens", e.TokensPrompt, math.MaxUint32}, {"engine's cached tokens", e.TokensCached, math.MaxUint32},
		{"engine's output tokens", e.TokensOutput, math.MaxUint32}, {"transfer's tokens", t.Tokens, math.MaxUint32},
		{"transfer's bytes", t.Bytes, math.MaxInt64}, {"replay.candidate", r.Candidate, math.MaxInt16},
		{"replay.state.decision.flows", r.DecisionFlows, math.MaxUint32},
		{"replay.state.replay.flows", r.ReplayFlows, math.MaxUint32}, {"replay.cost.bytes", r.CostBytes, math.MaxInt64},
	} {
		if c.value.OK && (c.value.V < 0 || c.value.V > c.most) {
			return fmt.Errorf("its %s (%d) is not between 0 and %d", c.name, c.value.V, c.most)
		}
	}
	return nil
}

func validSeconds(p *schema.Part) error {
	o, e, t, r := &p.Observed, &p.Engine, &p.Transfer, &p.Replay
	for _, s := range [...]struct {
		name  string
		value schema.Seconds
	}{
		{"gpu_queue", o.GPUQueue}, {"transfer_queue", o.TransferQueue}, {"transfer", o.Transfer},
		{"transfer.start", o.TransferStart}, {"exposed_stall", o.ExposedStall}, {"restore", o.Restore},
		{"prefill", o.Prefill}, {"ttft", o.TTFT}, {"state.age", p.Decision.StateAge}, {"engine's queue", e.Queue},
		{"engine's prefill", e.Prefill}, {"engine's decode", e.Decode}, {"engine's ttft", e.TTFT}, {"engine's e2e", e.E2E},
		{"transfer's queue", t.Queue}, {"transfer's duration", t.Duration},
		{"replay.state.decision.gpu_queue", r.DecisionGPUQueue}, {"replay.state.replay.gpu_queue", r.ReplayGPUQueue},
		{"replay.model.decision", r.ModelDecision}, {"replay.model.replay", r.ModelReplay}, {"replay.cost.gpu", r.CostGPU},
	} {
		if s.value.OK && !(math.Abs(s.value.V) <= mostSeconds) {
			return fmt.Errorf("its %s (%v s) is no number of seconds", s.name, s.value.V)
		}
	}
	return nil
}

func validCandidates(p *schema.Part) error {
	list := p.Decision.Candidates
	for i := range list {
		c := &list[i]
		for _, n := range [...]int64{c.TokensResident, c.TokensFetched, c.TokensComputed} {
			if !within32(n) {
				return fmt.Errorf("a token count of its candidate %d (%d) is not between -1 and %d", i, n, math.MaxInt32)
			}
		}
		if c.Bytes < -1 {
			return fmt.Errorf("the bytes of its candidate %d (%d) are below -1", i, c.Bytes)
		}
	}
	return nil
}

func validReplay(p *schema.Part) error {
	if p.Kind != schema.KindReplay {
		return nil
	}
	r := &p.Replay
	if r.Of == (schema.TraceID{}) || r.OfSpan == (schema.SpanID{}) {
		return errors.New("it does not say which trace and span it replays")
	}
	if !(r.Inclusion > 0 && r.Inclusion <= 1) {
		return fmt.Errorf("its inclusion (%v) is no probability above 0", r.Inclusion)
	}
	return nil
}

// isReplay says whether the part belongs to a leg of a replay.
func isReplay(p *schema.Part) bool {
	return p.Kind == schema.KindReplay || strings.HasPrefix(p.RequestID, schema.ReplayRequestIDPrefix)
}
