// Package kvspan writes the contract span from a Go coordinator, with the
// OpenTelemetry API only:
//
//	p := schema.Part{Kind: schema.KindContract, RequestID: id, StartNanos: decided.UnixNano()}
//	p.Decision = decision            // what was known and chosen
//	... the request runs ...
//	p.Observed, p.EndNanos = observed, firstToken.UnixNano()
//	kvspan.Write(ctx, tracer, &p)
//
// The instants are those of the part, not of the call, so that a span can be
// written after the fact, and with simulated time.
package kvspan

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Write writes one span named schema.SpanName, kind INTERNAL, from p.StartNanos
// to p.EndNanos (Unix nanoseconds): the decision and outcome of a request, or a
// leg of a replay where p.Kind is schema.KindReplay. The span is a child of the
// one in ctx and has its trace id; without one it begins a trace. It returns the
// identifiers that the span got; p.Trace, p.Span and p.Parent are not used. The
// identifiers are zero, and nothing is written, if the tracer's provider does
// nothing; they are given and nothing is written if its sampler drops the span.
//
// What is missing in p (an Opt that is not OK, an empty name) is not written.
// Model, TokensPrompt and TokensReused are written as the GenAI conventions name
// them.
func Write(ctx context.Context, tracer trace.Tracer, p *schema.Part) (schema.TraceID, schema.SpanID) {
	_, span := tracer.Start(ctx, schema.SpanName,
		trace.WithTimestamp(time.Unix(0, p.StartNanos)),
		trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(Attributes(p)...))
	span.End(trace.WithTimestamp(time.Unix(0, p.EndNanos)))
	sc := span.SpanContext()
	return schema.TraceID(sc.TraceID()), schema.SpanID(sc.SpanID())
}

// Attributes gives what Write puts on the span, for a coordinator that begins
// and ends the span itself.
func Attributes(p *schema.Part) []attribute.KeyValue {
	a := make(list, 0, 64)
	a.text(schema.AttrRequestID, p.RequestID)
	a.decision(&p.Decision)
	a.observed(&p.Observed)
	if p.Kind == schema.KindReplay {
		a.replay(&p.Replay)
	}
	return a
}

// list is a list of attributes that leaves out what is missing.
type list []attribute.KeyValue

func (a *list) text(key, v string) {
	if v != "" {
		*a = append(*a, attribute.String(key, v))
	}
}

func (a *list) count(key string, v schema.Count) {
	if v.OK {
		*a = append(*a, attribute.Int64(key, v.V))
	}
}

func (a *list) seconds(key string, v schema.Seconds) {
	if v.OK {
		*a = append(*a, attribute.Float64(key, v.V))
	}
}

func (a *list) decision(d *schema.Decision) {
	a.text(schema.AttrPolicy, d.Policy)
	a.count(schema.AttrRevision, schema.Count{V: d.Revision, OK: d.Revision != 0})
	a.text(schema.AttrTenant, d.Tenant)
	a.text(schema.AttrPath, d.Path.String())
	a.count(schema.AttrChosen, d.Chosen)
	a.text(schema.AttrGenAIModel, d.Model)
	a.text(schema.AttrGPU, d.GPU)
	a.text(schema.AttrWorker, d.Worker)
	a.text(schema.AttrSourceWorker, d.SourceWorker)
	a.text(schema.AttrSourceTier, d.SourceTier.String())
	a.text(schema.AttrLink, d.Link)
	a.count(schema.AttrGenAIInputTokens, d.TokensPrompt)
	a.count(schema.AttrTokensPrefix, d.TokensPrefix)
	a.count(schema.AttrGenAICacheRead, d.TokensReused)
	a.count(schema.AttrLinkFlows, d.LinkFlows)
	a.count(schema.AttrWorkerActive, d.WorkerActive)
	a.seconds(schema.AttrStateAge, d.StateAge)
	if len(d.PrefixBlocks) > 0 {
		*a = append(*a, attribute.Int64Slice(schema.AttrPrefixBlocks, d.PrefixBlocks))
	}
	if len(d.Candidates) > 0 {
		a.candidates(d.Candidates)
	}
}

func (a *list) observed(o *schema.Observed) {
	a.count(schema.AttrBytes, o.Bytes)
	a.seconds(schema.AttrGPUQueue, o.GPUQueue)
	a.seconds(schema.AttrTransferQueue, o.TransferQueue)
	a.seconds(schema.AttrTransfer, o.Transfer)
	a.seconds(schema.AttrTransferStart, o.TransferStart)
	a.seconds(schema.AttrExposedStall, o.ExposedStall)
	a.seconds(schema.AttrRestore, o.Restore)
	a.seconds(schema.AttrPrefill, o.Prefill)
	a.seconds(schema.AttrTTFT, o.TTFT)
}

func (a *list) replay(r *schema.Replay) {
	a.text(schema.AttrReplayOf, r.Of.String())
	a.text(schema.AttrReplaySpan, r.OfSpan.String())
	a.text(schema.AttrReplayPlan, r.Plan)
	a.text(schema.AttrReplayPath, r.Path.String())
	a.count(schema.AttrReplayCandidate, r.Candidate)
	a.seconds(schema.AttrReplayInclusion, schema.Some(r.Inclusion))
	a.text(schema.AttrReplayLeg, r.Leg.String())
	a.text(schema.AttrReplayBatch, r.Batch)
	a.seconds(schema.AttrReplayStateDecisionGPUQueue, r.DecisionGPUQueue)
	a.count(schema.AttrReplayStateDecisionFlows, r.DecisionFlows)
	a.seconds(schema.AttrReplayStateReplayGPUQueue, r.ReplayGPUQueue)
	a.count(schema.AttrReplayStateReplayFlows, r.ReplayFlows)
	a.seconds(schema.AttrReplayModelDecision, r.ModelDecision)
	a.seconds(schema.AttrReplayModelReplay, r.ModelReplay)
	a.seconds(schema.AttrReplayGPUSeconds, r.CostGPU)
	a.count(schema.AttrReplayLinkBytes, r.CostBytes)
}
