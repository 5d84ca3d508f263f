package load

import (
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// Values of transfers.origin.
const (
	originContract = 1
	originTransfer = 2
	originReplay   = 3
)

// spanColumns identify the span of a row of replays.
func spanColumns() []column {
	return []column{
		fixed16("trace", func(r *row) [16]byte { return r.part.Trace }),
		uint64Of("span", func(r *row) uint64 { return r.part.Span.Uint64() }),
		lowText("service", func(r *row) string { return r.part.Service }),
		lowText("adapter", func(r *row) string { return r.part.Adapter }),
	}
}

// transferColumns read what movement has made of the part.
func transferColumns() []column {
	m := func(r *row) *movement { return &r.move }
	return []column{
		fixed16("trace", func(r *row) [16]byte { return m(r).trace }),
		uint64Of("span", func(r *row) uint64 { return m(r).span.Uint64() }),
		lowText("service", func(r *row) string { return m(r).service }),
		lowText("adapter", func(r *row) string { return m(r).adapter }),
		nanos("start", func(r *row) int64 { return m(r).start }),
		fixed16("id", func(r *row) [16]byte { return r.id }),
		uint8Of("joined", func(r *row) uint8 { return bit(r.id != schema.RowID{}) }),
		enum8("origin", func(r *row) uint8 { return m(r).origin }),
		lowText("operation", func(r *row) string { return m(r).operation }),
		enum8("tier", func(r *row) uint8 { return uint8(m(r).tier) }),
		lowText("source", func(r *row) string { return m(r).source }),
		lowText("worker", func(r *row) string { return m(r).worker }),
		lowText("model", func(r *row) string { return m(r).model }),
		lowText("link", func(r *row) string { return m(r).link }),
		uint8Of("exact", func(r *row) uint8 { return bit(m(r).exact) }),
		count32("tokens", func(r *row) schema.Count { return m(r).tokens }),
		count64("bytes", func(r *row) schema.Count { return m(r).bytes }),
		seconds32("queue", func(r *row) schema.Seconds { return m(r).queue }),
		seconds64("duration", func(r *row) schema.Seconds { return m(r).duration }),
		count32("flows", func(r *row) schema.Count { return m(r).flows }),
	}
}

// movement is a row of transfers, from a contract span or a transfer span.
type movement struct {
	trace            schema.TraceID
	span             schema.SpanID
	service, adapter string
	worker, model    string
	flows            schema.Count
	origin           uint8
	start            int64 // Unix nanoseconds
	exact            bool
	operation        string
	tier             schema.Tier
	source, link     string
	tokens, bytes    schema.Count
	queue, duration  schema.Seconds
}

// movementOf is the movement that a transfer span tells of.
func movementOf(p *schema.Part) movement {
	t := &p.Transfer
	m := movement{trace: p.Trace, span: p.Span, service: p.Service, adapter: p.Adapter, worker: p.Decision.Worker,
		model: p.Decision.Model, flows: p.Decision.LinkFlows, origin: originTransfer,
		start: p.StartNanos + int64(t.Queue.V*1e9), exact: t.Queue.OK, operation: t.Operation, tier: t.Tier,
		source: t.Source, link: t.Link, tokens: t.Tokens, bytes: t.Bytes, queue: t.Queue, duration: t.Duration}
	if isReplay(p) {
		m.origin = originReplay
	}
	return m
}

// movementIn is the movement that a contract span tells of.
func movementIn(v *wire.View) movement {
	first := v.Second(wire.SecondsTransferStart)
	return movement{trace: v.Trace, span: v.Span, service: v.Text(wire.TextService), adapter: v.Text(wire.TextAdapter),
		worker: v.Text(wire.TextWorker), model: v.Text(wire.TextModel), flows: v.Count(wire.CountLinkFlows), origin: originContract,
		start: v.StartNanos + int64(first.V*1e9), exact: first.OK, operation: "load", tier: v.SourceTier,
		source: v.Text(wire.TextSourceWorker), link: v.Text(wire.TextLink), tokens: fetched(v), bytes: v.Count(wire.CountBytes),
		queue: v.Second(wire.SecondsTransferQueue), duration: v.Second(wire.SecondsTransfer)}
}

// fetched is how many tokens the chosen candidate fetches, where that is said.
func fetched(v *wire.View) schema.Count {
	chosen := v.Count(wire.CountChosen)
	if chosen.OK && chosen.V < int64(len(v.Candidates)) && v.Candidates[chosen.V].TokensFetched >= 0 {
		return schema.Some(v.Candidates[chosen.V].TokensFetched)
	}
	return schema.Count{}
}

// moved says whether a contract span has a row in transfers: bytes moved, and
// when they did is known.
func moved(v *wire.View) bool {
	return v.Count(wire.CountBytes).V > 0 && v.Second(wire.SecondsTransfer).OK
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// replayColumns are those that only replays has.
func replayColumns() []column {
	x := func(r *row) *schema.Replay { return &r.part.Replay }
	return []column{
		nanos("start", func(r *row) int64 { return r.part.StartNanos }),
		nanos("end", func(r *row) int64 { return r.part.EndNanos }),
		fixed16("id", func(r *row) [16]byte { return schema.NewRowID(x(r).Of, x(r).OfSpan) }),
		fixed16("of", func(r *row) [16]byte { return x(r).Of }),
		uint64Of("of_span", func(r *row) uint64 { return x(r).OfSpan.Uint64() }),
		text("request_id", func(r *row) string { return r.part.RequestID }),
		lowText("plan", func(r *row) string { return x(r).Plan }),
		enum8("path", func(r *row) uint8 { return uint8(x(r).Path) }),
		count16("candidate", func(r *row) schema.Count { return x(r).Candidate }),
		float64Of("inclusion", func(r *row) float64 { return x(r).Inclusion }),
		enum8("leg", func(r *row) uint8 { return uint8(x(r).Leg) }),
		lowText("batch", func(r *row) string { return x(r).Batch }),
		seconds32("decision_gpu_queue", func(r *row) schema.Seconds { return x(r).DecisionGPUQueue }),
		count32("decision_flows", func(r *row) schema.Count { return x(r).DecisionFlows }),
		seconds32("replay_gpu_queue", func(r *row) schema.Seconds { return x(r).ReplayGPUQueue }),
		count32("replay_flows", func(r *row) schema.Count { return x(r).ReplayFlows }),
		seconds64("model_decision", func(r *row) schema.Seconds { return x(r).ModelDecision }),
		seconds64("model_replay", func(r *row) schema.Seconds { return x(r).ModelReplay }),
		seconds64("cost_gpu", func(r *row) schema.Seconds { return x(r).CostGPU }),
		count64("cost_bytes", func(r *row) schema.Count { return x(r).CostBytes }),
		int64Of("revision", func(r *row) int64 { return r.part.Decision.Revision }),
	}
}

// waitingColumns are all of waiting.
func waitingColumns() []column {
	return []column{
		dayOf("day", func(r *row) int64 { return r.part.StartNanos }),
		fixed16("trace", func(r *row) [16]byte { return r.part.Trace }),
		uint64Of("span", func(r *row) uint64 { return r.part.Span.Uint64() }),
		uint64Of("parent", func(r *row) uint64 { return r.part.Parent.Uint64() }),
		text("request_id", func(r *row) string { return r.part.RequestID }),
		bytesOf("part", func(r *row) []byte { return r.frame }),
		millis("arrived", func(r *row) int64 { return r.arrived }),
		uint64Of("version", func(r *row) uint64 { return r.version }),
		uint8Of("done", func(r *row) uint8 { return r.done }),
	}
}
