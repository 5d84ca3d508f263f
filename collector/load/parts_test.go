package load

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
)

// base is the start of the minute in which the tests' first request starts:
// an hour ago, so that nothing is too old for the tables.
var base = time.Now().Add(-time.Hour).Truncate(time.Minute)

func traceOf(n uint64) (t schema.TraceID) {
	binary.BigEndian.PutUint64(t[:8], n*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(t[8:], n+1)
	return t
}

func spanOf(n uint64) (s schema.SpanID) {
	binary.BigEndian.PutUint64(s[:], n*0xbf58476d1ce4e5b9+1)
	return s
}

func count(n int64) schema.Count       { return schema.Some(n) }
func seconds(s float64) schema.Seconds { return schema.Some(s) }

// contract is request n: fetched, predicted and observed, the more in the
// minute the larger n.
func contract(n uint64, after time.Duration) *schema.Part {
	r := rand.New(rand.NewPCG(n, 1))
	ttft := 0.1 + r.Float64()
	p := &schema.Part{Kind: schema.KindContract, Adapter: "kvreuse", Service: "router", Trace: traceOf(n), Span: spanOf(n),
		StartNanos: base.Add(after).UnixNano(), RequestID: "req-" + traceOf(n).String()[:8]}
	p.EndNanos = p.StartNanos + int64(ttft*1e9)
	p.Decision = schema.Decision{Policy: "always", Revision: 3, Tenant: "t", Path: schema.PathFetch, Chosen: count(0), Model: "llama", GPU: "H200",
		Worker: "w1", SourceWorker: "w2", SourceTier: schema.TierPeer, Link: []string{"spine", "leaf"}[n%2],
		TokensPrompt: count(4000), TokensPrefix: count(int64(500 << (n % 5))), TokensReused: count(2048), LinkFlows: count(int64(n % 7)),
		WorkerActive: count(2), StateAge: seconds(0.1), PrefixBlocks: []int64{1, 2, 3},
		Candidates: []schema.Candidate{
			{Path: schema.PathFetch, Worker: "w1", Source: "w2", Tier: schema.TierPeer, Links: "spine", TokensFetched: 2048, TokensComputed: 1952,
				Bytes: 1 << 28, TransferQueue: 0.01, Bandwidth: 5e10, Restore: 0.001, Recompute: 0.1, TTFT: 0.5, Externality: 0.05, Propensity: 0.9},
			{Path: schema.PathRecompute, Worker: "w1", TokensComputed: 4000, Bytes: -1, TransferQueue: nan, Bandwidth: nan,
				Restore: nan, Recompute: 0.4, TTFT: 0.6, Externality: nan, Propensity: 0.1},
		}}
	p.Observed = schema.Observed{Bytes: count(1 << 28), GPUQueue: seconds(0.01), TransferQueue: seconds(0.02), Transfer: seconds(0.03),
		TransferStart: seconds(0.02), ExposedStall: seconds(0.04), Restore: seconds(0.001), Prefill: seconds(ttft - 0.06), TTFT: seconds(ttft)}
	return p
}

// engine is vLLM's span of request n, a child of its contract span.
func engine(n uint64, after time.Duration) *schema.Part {
	p := contract(n, after)
	return &schema.Part{Kind: schema.KindEngine, Adapter: "vllm", Service: "vllm", Trace: p.Trace, Span: spanOf(n + 1e6), Parent: p.Span,
		StartNanos: p.StartNanos + 1e6, EndNanos: p.EndNanos, RequestID: "cmpl-" + p.RequestID,
		Engine: schema.Engine{Model: "llama-3", TokensPrompt: count(4000), TokensCached: count(2000), TokensOutput: count(10),
			Queue: seconds(0.01), Prefill: seconds(0.2), Decode: seconds(1), TTFT: seconds(0.3), E2E: seconds(1.3)}}
}

// transfer is LMCache's span k of request n: another trace, the engine's
// request id.
func transfer(n, k uint64, after time.Duration) *schema.Part {
	return &schema.Part{Kind: schema.KindTransfer, Adapter: "lmcache", Service: "lmcache", Trace: traceOf(n + 5e6 + k*1e7), Span: spanOf(n + 2e6 + k*1e7),
		StartNanos: base.Add(after).UnixNano() + 2e6, EndNanos: base.Add(after).UnixNano() + 9e6, RequestID: engine(n, after).RequestID,
		Transfer: schema.Transfer{Operation: "load", Tier: schema.TierCPU, Source: "w2", Link: "pcie", Tokens: count(256), Bytes: count(1000),
			Queue: seconds(0.001), Duration: seconds(0.005)}}
}

// leg is a replay of request n.
func leg(n uint64, after time.Duration) *schema.Part {
	of := contract(n, after)
	p := contract(n+9e6, after+time.Minute)
	p.Kind, p.RequestID = schema.KindReplay, schema.ReplayRequestIDPrefix+"1"
	p.Decision.Candidates = nil
	p.Replay = schema.Replay{Of: of.Trace, OfSpan: of.Span, Plan: "plan", Path: schema.PathRecompute, Candidate: count(1), Inclusion: 0.05,
		Leg: schema.LegRejected, Batch: "b", DecisionGPUQueue: seconds(0.1), DecisionFlows: count(3), ReplayGPUQueue: seconds(0), ReplayFlows: count(0),
		ModelDecision: seconds(0.6), ModelReplay: seconds(0.5), CostGPU: seconds(0.4), CostBytes: count(0)}
	return p
}
