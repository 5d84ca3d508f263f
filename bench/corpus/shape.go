package corpus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"go.opentelemetry.io/otel/attribute"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Shape is what is on a span.
type Shape struct {
	Name       string
	Candidates int // 0: the plain shape, without a decision's arrays
	Blocks     int // of its prefix
}

// The shapes that most figures are about.
var (
	// Plain has 11 attributes and moves nothing.
	Plain = Shape{Name: "plain"}
	// Contract is a whole decision with three candidates; it becomes a row of
	// requests, and one of transfers where it fetched.
	Contract = Shape{Name: "contract", Candidates: 3}
)

const (
	bytesPerToken = 147_456 // of KV cache: Mooncake's model
	blockTokens   = 512
	gpuQueue      = 0.02 // seconds, median
	wire          = 0.05
	prefill       = 0.15
)

// part has values as those of a fleet: a few dozen workers and links, skewed
// durations. EndNanos is how long the span lasts.
func (s Shape) part(r *rand.Rand) *schema.Part {
	p := &schema.Part{Kind: schema.KindContract}
	d, o := &p.Decision, &p.Observed
	d.Policy, d.Model, d.GPU, d.Tenant = "seed", "m70b", "H200", fmt.Sprintf("t%02d", r.IntN(40))
	d.Worker, d.Link = worker(r), link(r)
	d.LinkFlows = schema.Some(int64(r.IntN(20)))
	o.GPUQueue, o.Prefill = schema.Some(skewed(r, gpuQueue)), schema.Some(skewed(r, prefill))
	o.TTFT = schema.Some(o.GPUQueue.V + o.Prefill.V)
	d.Path = schema.PathResident
	if s.Candidates > 0 {
		s.decide(r, p)
	}
	for range s.Blocks {
		d.PrefixBlocks = append(d.PrefixBlocks, r.Int64())
	}
	p.EndNanos = int64(o.TTFT.V * 1e9)
	return p
}

// decide adds candidates and what became of the choice.
func (s Shape) decide(r *rand.Rand, p *schema.Part) {
	d, o := &p.Decision, &p.Observed
	prefix := int64(1+r.IntN(30)) * blockTokens
	prompt := prefix + int64(1+r.IntN(blockTokens))
	d.Revision, d.GPU = 7, "H200"
	d.TokensPrompt, d.TokensPrefix = schema.Some(prompt), schema.Some(prefix)
	d.WorkerActive, d.StateAge = schema.Some(int64(r.IntN(8))), schema.Some(r.Float64())
	for i := range s.Candidates {
		d.Candidates = append(d.Candidates, candidate(r, d, i, s.Candidates, prefix, prompt))
	}
	chosen := r.IntN(s.Candidates)
	c := &d.Candidates[chosen]
	d.Chosen, d.Path = schema.Some(int64(chosen)), c.Path
	d.TokensReused = schema.Some(c.TokensFetched)
	o.Restore, o.ExposedStall = schema.Some(0.0), schema.Some(0.0)
	if c.Path != schema.PathRecompute {
		moved(r, d, o, c)
	}
	o.TTFT = schema.Some(o.GPUQueue.V + o.ExposedStall.V + o.Prefill.V)
}

func candidate(r *rand.Rand, d *schema.Decision, i, of int, prefix, prompt int64) schema.Candidate {
	nan := math.NaN()
	c := schema.Candidate{
		Path: schema.Path(1 + i%3), Worker: d.Worker, TokensComputed: prompt, Bytes: -1, GPUQueue: skewed(r, gpuQueue),
		TransferQueue: nan, Bandwidth: nan, Restore: nan, Recompute: skewed(r, prefill), TTFT: skewed(r, 2*prefill),
		Externality: skewed(r, gpuQueue), Propensity: 1 / float64(of),
	}
	if c.Path != schema.PathRecompute {
		c.Source, c.Tier, c.Links = worker(r), schema.TierPeer, d.Link
		c.TokensFetched, c.TokensComputed, c.Bytes = prefix, prompt-prefix, prefix*bytesPerToken
		c.TransferQueue, c.Bandwidth, c.Restore = skewed(r, wire/10), 5e10/float64(1+r.IntN(9)), 0
	}
	return c
}

// moved is what a transfer leaves on the span.
func moved(r *rand.Rand, d *schema.Decision, o *schema.Observed, c *schema.Candidate) {
	d.SourceWorker, d.SourceTier = c.Source, c.Tier
	o.Bytes = schema.Some(c.Bytes)
	o.TransferQueue, o.Transfer = schema.Some(c.TransferQueue), schema.Some(skewed(r, wire))
	o.TransferStart = o.TransferQueue
	o.ExposedStall = schema.Some(max(0, o.TransferQueue.V+o.Transfer.V-o.GPUQueue.V))
}

// skewed is lognormal about the median given.
func skewed(r *rand.Rand, median float64) float64 { return median * math.Exp(r.NormFloat64()/2) }

func worker(r *rand.Rand) string { return fmt.Sprintf("w%02d", r.IntN(32)) }
func link(r *rand.Rand) string   { return fmt.Sprintf("l%d", r.IntN(8)) }

// attributes are those of an SDK as its OTLP exporter writes them.
func attributes(list []attribute.KeyValue) (out []*commonpb.KeyValue) {
	for _, a := range list {
		out = append(out, &commonpb.KeyValue{Key: string(a.Key), Value: value(a.Value.AsInterface())})
	}
	return out
}

func value(x any) *commonpb.AnyValue {
	switch v := x.(type) {
	case string:
		return text(v)
	case int64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	}
	list, array := reflect.ValueOf(x), &commonpb.ArrayValue{}
	for i := range list.Len() {
		array.Values = append(array.Values, value(list.Index(i).Interface()))
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: array}}
}

func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}
