package schema

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
)

// TraceID and SpanID are OTLP's identifiers. The zero value is not valid.
type (
	TraceID [16]byte
	SpanID  [8]byte
	// RowID is the key of a request: hash128(trace id, anchor span id), for one
	// trace of an agent holds several requests.
	RowID [16]byte
)

// String gives 32 lower-case hex digits.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// String gives 16 lower-case hex digits.
func (s SpanID) String() string { return hex.EncodeToString(s[:]) }

// String gives 32 lower-case hex digits.
func (r RowID) String() string { return hex.EncodeToString(r[:]) }

// Uint64 is the span id as ClickHouse keeps it in requests.spans.
func (s SpanID) Uint64() uint64 { return binary.BigEndian.Uint64(s[:]) }

// NewRowID is the key of the request whose anchor span is given: FNV-1a, 128
// bits, over the 16 bytes of the trace id and the 8 of the span id. It is part
// of the stored format (FORMAT.md).
func NewRowID(t TraceID, anchor SpanID) (id RowID) {
	h := fnv.New128a()
	h.Write(t[:])
	h.Write(anchor[:])
	h.Sum(id[:0])
	return id
}

// Opt is a value that may be missing. Its zero value is missing, so what nobody
// set can not be taken for a measured zero.
type Opt[T any] struct {
	V  T
	OK bool
}

// Some is a value that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, OK: true} }

// Or gives the value, or other where it is missing.
func (o Opt[T]) Or(other T) T {
	if o.OK {
		return o.V
	}
	return other
}

// Seconds and Count are optional measured values.
type (
	Seconds = Opt[float64] // seconds
	Count   = Opt[int64]   // bytes, tokens, flows or requests, as the field says
)

// Kind is what a part contributes.
type Kind uint8

// The kinds of part. Never renumber one: they are on the wire.
const (
	KindContract Kind = 1 // a kvreuse.request span: decision and outcome
	KindEngine   Kind = 2 // an engine's own span of one request (vLLM's llm_request)
	KindTransfer Kind = 3 // one movement of KV (LMCache, or a connector)
	KindReplay   Kind = 4 // a leg of a replay
)

// Part is what one span says of one request: the unit that travels through
// Kafka. It is at once the decoded wire format and the input of load. Strings
// and slices of a decoded Part belong to it.
type Part struct {
	Kind    Kind
	Adapter string // which adapter made it: "kvreuse", "vllm", "lmcache"
	Service string // service.name of the resource

	Trace      TraceID
	Span       SpanID
	Parent     SpanID // zero where the span is a root
	StartNanos int64  // Unix nanoseconds
	EndNanos   int64  // Unix nanoseconds, not before StartNanos
	RequestID  string // the engine's; joins what shares no trace

	Decision Decision
	Observed Observed
	Engine   Engine
	Transfer Transfer
	Replay   Replay
}

// Decision is what was known and chosen; only on KindContract, and on
// KindReplay where it repeats model, GPU and worker.
type Decision struct {
	Policy       string
	Revision     int64
	Tenant       string
	Path         Path
	Chosen       Count // index among Candidates
	Model        string
	GPU          string
	Worker       string
	SourceWorker string
	SourceTier   Tier
	Link         string

	TokensPrompt Count
	TokensPrefix Count
	TokensReused Count

	LinkFlows    Count
	WorkerActive Count
	StateAge     Seconds

	PrefixBlocks []int64 // opaque; in Kafka only
	Candidates   []Candidate
}

// Candidate is one way in which the request could have run, as predicted when
// it was decided. A NaN is "not applicable"; so is −1 in an integer.
type Candidate struct {
	Path           Path
	Worker         string
	Source         string
	Tier           Tier
	Links          string // the links it would use, joined by "+"; the first is the bottleneck
	TokensResident int64
	TokensFetched  int64
	TokensComputed int64
	Bytes          int64
	GPUQueue       float64 // seconds
	TransferQueue  float64 // seconds
	Bandwidth      float64 // bytes/s
	Restore        float64 // seconds
	Recompute      float64 // seconds to compute TokensComputed
	TTFT           float64 // seconds, suffix included
	Externality    float64 // seconds of delay imposed on others
	Propensity     float64 // 0 to 1; above 0 for the choice
}

// Observed is what happened on the chosen path (on a replay: on the leg's).
// TTFT = GPUQueue + ExposedStall + Restore + Prefill + remainder.
type Observed struct {
	Bytes         Count
	GPUQueue      Seconds
	TransferQueue Seconds
	Transfer      Seconds
	TransferStart Seconds // after the span's start
	ExposedStall  Seconds
	Restore       Seconds
	Prefill       Seconds
	TTFT          Seconds
}

// Engine is what an engine's own span says of the request.
type Engine struct {
	Model        string
	TokensPrompt Count
	TokensCached Count
	TokensOutput Count
	Queue        Seconds
	Prefill      Seconds
	Decode       Seconds
	TTFT         Seconds
	E2E          Seconds
}

// Transfer is one movement of KV between tiers.
type Transfer struct {
	Operation string // "load", "store", "lookup"
	Tier      Tier
	Source    string
	Link      string
	Tokens    Count
	Bytes     Count
	Queue     Seconds
	Duration  Seconds
}

// Replay is what a leg adds: which decision it replays, and how it was drawn.
type Replay struct {
	Of        TraceID
	OfSpan    SpanID
	Plan      string
	Path      Path
	Candidate Count
	Inclusion float64 // (0, 1]
	Leg       Leg
	Batch     string

	DecisionGPUQueue Seconds
	DecisionFlows    Count
	ReplayGPUQueue   Seconds
	ReplayFlows      Count
	ModelDecision    Seconds // m_b(state at decision)
	ModelReplay      Seconds // m_b(state at replay)
	CostGPU          Seconds
	CostBytes        Count
}

// RowID is the key of the request that the part is an anchor of.
func (p *Part) RowID() RowID { return NewRowID(p.Trace, p.Span) }

// Remainder is the part of TTFT that no stage explains, in seconds; it may be
// negative. It is missing where TTFT or every stage is.
func (o *Observed) Remainder() Seconds {
	if !o.TTFT.OK || (!o.GPUQueue.OK && !o.ExposedStall.OK && !o.Restore.OK && !o.Prefill.OK) {
		return Seconds{}
	}
	return Some(o.TTFT.V - o.GPUQueue.V - o.ExposedStall.V - o.Restore.V - o.Prefill.V)
}

// Alternative gives the index of the candidate that the choice is weighed
// against, and −1 where there is none: for a recompute the candidate of another
// path with the least predicted TTFT + Externality; for every other path the
// recompute on the chosen worker or, without one, the best recompute.
func (d *Decision) Alternative() int {
	if !d.Chosen.OK || d.Chosen.V < 0 || d.Chosen.V >= int64(len(d.Candidates)) {
		return -1
	}
	own := d.Candidates[d.Chosen.V]
	best, bestLocal := -1, false
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if (own.Path == PathRecompute) == (c.Path == PathRecompute) || !(c.TTFT == c.TTFT) {
			continue
		}
		local := own.Path != PathRecompute && c.Worker == own.Worker
		better := best < 0 || c.net() < d.Candidates[best].net()
		if (local && !bestLocal) || (local == bestLocal && better) {
			best, bestLocal = i, local
		}
	}
	return best
}

// net is predicted own time plus what is imposed on others; a missing
// externality counts as none.
func (c *Candidate) net() float64 {
	if c.Externality == c.Externality {
		return c.TTFT + c.Externality
	}
	return c.TTFT
}
