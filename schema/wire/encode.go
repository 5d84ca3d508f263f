package wire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

// AppendPart appends the encoding of p, a Part of parts.proto, without a frame.
func AppendPart(b []byte, p *schema.Part) []byte {
	i := len(b)
	b = grow(b, room(p))
	return b[:putPart(b, i, p)]
}

// appendFramed appends p as an element of Batch.part.
func appendFramed(b []byte, p *schema.Part) []byte {
	i := len(b)
	b = grow(b, room(p)+maxFrame)
	i, at := begin(b, i, partField, 2)
	return b[:endKept(b, putPart(b, i, p), at)]
}

const (
	maxFrame = 2 + 2*5 // tag and length of a nested message, and of one more that is opened in it
	maxField = 2 + 10  // tag and varint
	// fields of a Part that are neither text nor a list, identifiers counted as
	// two, and how many text fields it has: an upper bound of both.
	partFields      = 80
	candidateFields = 20
)

// grow gives b with n bytes or more behind what it holds, doubled where they are
// not there.
func grow(b []byte, n int) []byte {
	if need := len(b) + n; need > cap(b) {
		b = append(make([]byte, 0, max(need, 2*cap(b))), b...)
	}
	return b[:cap(b)]
}

// room is the most bytes that p takes.
func room(p *schema.Part) int {
	d, e, t, r := &p.Decision, &p.Engine, &p.Transfer, &p.Replay
	n := partFields*maxField + 5*maxFrame + len(p.Adapter) + len(p.Service) + len(p.RequestID) +
		len(d.Policy) + len(d.Tenant) + len(d.Model) + len(d.GPU) + len(d.Worker) + len(d.SourceWorker) + len(d.Link) +
		len(e.Model) + len(t.Operation) + len(t.Source) + len(t.Link) + len(r.Plan) + len(r.Batch) + 8*len(d.PrefixBlocks)
	for i := range d.Candidates {
		c := &d.Candidates[i]
		n += candidateFields*maxField + maxFrame + len(c.Worker) + len(c.Source) + len(c.Links)
	}
	return n
}

// Each put function below writes into b from i, where there is room, and gives
// the index after it. It leaves out what is zero, and what is missing.

func putPart(b []byte, i int, p *schema.Part) int {
	i = putUint(b, i, 1, uint64(p.Kind))
	i = putText(b, i, 2, p.Adapter)
	i = putText(b, i, 3, p.Service)
	if p.Trace != (schema.TraceID{}) {
		i = putBytes(b, i, 4, p.Trace[:])
	}
	i = putSpanID(b, i, 5, &p.Span)
	i = putSpanID(b, i, 6, &p.Parent)
	i = putFixed(b, i, 7, uint64(p.StartNanos))
	i = putFixed(b, i, 8, uint64(p.EndNanos))
	i = putText(b, i, 9, p.RequestID)
	i = putDecision(b, i, &p.Decision)
	i, at := begin(b, i, 11, 1)
	i = end(b, putObserved(b, i, &p.Observed), at)
	i, at = begin(b, i, 12, 1)
	i = end(b, putEngine(b, i, &p.Engine), at)
	i, at = begin(b, i, 13, 1)
	i = end(b, putTransfer(b, i, &p.Transfer), at)
	i, at = begin(b, i, 14, 1)
	return end(b, putReplay(b, i, &p.Replay), at)
}

// putDecision writes it as field 10 of a Part.
func putDecision(b []byte, i int, d *schema.Decision) int {
	width := 1
	if len(d.Candidates) > 0 || len(d.PrefixBlocks) > 15 {
		width = 2
	}
	i, at := begin(b, i, 10, width)
	i = putText(b, i, 1, d.Policy)
	i = putText(b, i, 2, d.Tenant)
	i = putText(b, i, 3, d.Model)
	i = putText(b, i, 4, d.GPU)
	i = putText(b, i, 5, d.Worker)
	i = putText(b, i, 6, d.SourceWorker)
	i = putText(b, i, 7, d.Link)
	i = putUint(b, i, 8, uint64(d.Path))
	i = putUint(b, i, 9, uint64(d.SourceTier))
	i = putInt(b, i, 10, d.Revision)
	i = putCount(b, i, 11, d.Chosen)
	i = putCount(b, i, 12, d.TokensPrompt)
	i = putCount(b, i, 13, d.TokensPrefix)
	i = putCount(b, i, 14, d.TokensReused)
	i = putCount(b, i, 15, d.LinkFlows)
	i = putCount(b, i, 16, d.WorkerActive)
	i = putSeconds(b, i, 17, d.StateAge)
	i = putBlocks(b, i, d.PrefixBlocks)
	for n := range d.Candidates {
		start, frame := begin(b, i, 19, 1)
		i = endKept(b, putCandidate(b, start, &d.Candidates[n]), frame)
	}
	return end(b, i, at)
}

// putBlocks writes them as field 18 of a Decision.
func putBlocks(b []byte, i int, blocks []int64) int {
	if len(blocks) == 0 {
		return i
	}
	i = putTag(b, i, 18, protowire.BytesType)
	i = putVarint(b, i, uint64(8*len(blocks)))
	for _, h := range blocks {
		i = put64(b, i, uint64(h))
	}
	return i
}

func putCandidate(b []byte, i int, c *schema.Candidate) int {
	i = putText(b, i, 1, c.Worker)
	i = putText(b, i, 2, c.Source)
	i = putText(b, i, 3, c.Links)
	i = putUint(b, i, 4, uint64(c.Path))
	i = putUint(b, i, 5, uint64(c.Tier))
	i = putInt(b, i, 6, c.TokensResident)
	i = putInt(b, i, 7, c.TokensFetched)
	i = putInt(b, i, 8, c.TokensComputed)
	i = putInt(b, i, 9, c.Bytes)
	i = putFixed(b, i, 10, math.Float64bits(c.GPUQueue))
	i = putFixed(b, i, 11, math.Float64bits(c.TransferQueue))
	i = putFixed(b, i, 12, math.Float64bits(c.Bandwidth))
	i = putFixed(b, i, 13, math.Float64bits(c.Restore))
	i = putFixed(b, i, 14, math.Float64bits(c.Recompute))
	i = putFixed(b, i, 15, math.Float64bits(c.TTFT))
	i = putFixed(b, i, 16, math.Float64bits(c.Externality))
	return putFixed(b, i, 17, math.Float64bits(c.Propensity))
}

func putObserved(b []byte, i int, o *schema.Observed) int {
	i = putCount(b, i, 1, o.Bytes)
	i = putSeconds(b, i, 2, o.GPUQueue)
	i = putSeconds(b, i, 3, o.TransferQueue)
	i = putSeconds(b, i, 4, o.Transfer)
	i = putSeconds(b, i, 5, o.TransferStart)
	i = putSeconds(b, i, 6, o.ExposedStall)
	i = putSeconds(b, i, 7, o.Restore)
	i = putSeconds(b, i, 8, o.Prefill)
	return putSeconds(b, i, 9, o.TTFT)
}

func putEngine(b []byte, i int, e *schema.Engine) int {
	i = putText(b, i, 1, e.Model)
	i = putCount(b, i, 2, e.TokensPrompt)
	i = putCount(b, i, 3, e.TokensCached)
	i = putCount(b, i, 4, e.TokensOutput)
	i = putSeconds(b, i, 5, e.Queue)
	i = putSeconds(b, i, 6, e.Prefill)
	i = putSeconds(b, i, 7, e.Decode)
	i = putSeconds(b, i, 8, e.TTFT)
	return putSeconds(b, i, 9, e.E2E)
}

func putTransfer(b []byte, i int, t *schema.Transfer) int {
	i = putText(b, i, 1, t.Operation)
	i = putText(b, i, 2, t.Source)
	i = putText(b, i, 3, t.Link)
	i = putUint(b, i, 4, uint64(t.Tier))
	i = putCount(b, i, 5, t.Tokens)
	i = putCount(b, i, 6, t.Bytes)
	i = putSeconds(b, i, 7, t.Queue)
	return putSeconds(b, i, 8, t.Duration)
}

func putReplay(b []byte, i int, r *schema.Replay) int {
	i = putText(b, i, 1, r.Plan)
	i = putText(b, i, 2, r.Batch)
	i = putUint(b, i, 3, uint64(r.Path))
	i = putUint(b, i, 4, uint64(r.Leg))
	if r.Of != (schema.TraceID{}) {
		i = putBytes(b, i, 5, r.Of[:])
	}
	i = putSpanID(b, i, 6, &r.OfSpan)
	i = putFixed(b, i, 7, math.Float64bits(r.Inclusion))
	i = putCount(b, i, 8, r.Candidate)
	i = putCount(b, i, 9, r.DecisionFlows)
	i = putCount(b, i, 10, r.ReplayFlows)
	i = putCount(b, i, 11, r.CostBytes)
	i = putSeconds(b, i, 12, r.DecisionGPUQueue)
	i = putSeconds(b, i, 13, r.ReplayGPUQueue)
	i = putSeconds(b, i, 14, r.ModelDecision)
	i = putSeconds(b, i, 15, r.ModelReplay)
	return putSeconds(b, i, 16, r.CostGPU)
}
