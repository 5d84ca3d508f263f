package load

import "github.com/kvwhatif/kvwhatif/schema"

// keyColumns are those of requests that every part of a row brings.
func keyColumns() []column {
	return []column{
		minuteOf("minute", func(r *row) int64 { return r.minute }),
		fixed16("id", func(r *row) [16]byte { return r.id }),
		fixed16("trace", func(r *row) [16]byte { return r.trace }),
		oneUint64("spans", func(r *row) uint64 { return r.part.Span.Uint64() }),
		oneUint32("contents", func(r *row) uint32 { return r.content }),
		enum8("kind", func(r *row) uint8 { return r.kind }),
	}
}

// placeColumns say who decided and where the request ran; the same in requests
// and replays.
func placeColumns() []column {
	d := func(r *row) *schema.Decision { return &r.part.Decision }
	return []column{
		lowText("policy", func(r *row) string { return d(r).Policy }),
		lowText("model", func(r *row) string { return d(r).Model }),
		lowText("gpu", func(r *row) string { return d(r).GPU }),
		lowText("worker", func(r *row) string { return d(r).Worker }),
		lowText("source_worker", func(r *row) string { return d(r).SourceWorker }),
		enum8("tier", func(r *row) uint8 { return uint8(d(r).SourceTier) }),
		lowText("link", func(r *row) string { return d(r).Link }),
		count32("tokens_prompt", func(r *row) schema.Count { return d(r).TokensPrompt }),
		count32("tokens_prefix", func(r *row) schema.Count { return d(r).TokensPrefix }),
		count32("tokens_reused", func(r *row) schema.Count { return d(r).TokensReused }),
	}
}

// stageColumns are what was observed on the path that ran; the same in requests
// and replays.
func stageColumns() []column {
	o := func(r *row) *schema.Observed { return &r.part.Observed }
	return []column{
		count64("bytes", func(r *row) schema.Count { return o(r).Bytes }),
		seconds32("gpu_queue", func(r *row) schema.Seconds { return o(r).GPUQueue }),
		seconds32("transfer_queue", func(r *row) schema.Seconds { return o(r).TransferQueue }),
		seconds32("transfer", func(r *row) schema.Seconds { return o(r).Transfer }),
		seconds32("transfer_start", func(r *row) schema.Seconds { return o(r).TransferStart }),
		seconds32("exposed_stall", func(r *row) schema.Seconds { return o(r).ExposedStall }),
		seconds32("restore", func(r *row) schema.Seconds { return o(r).Restore }),
		seconds32("prefill", func(r *row) schema.Seconds { return o(r).Prefill }),
		seconds32("ttft", func(r *row) schema.Seconds { return o(r).TTFT }),
		seconds32("remainder", func(r *row) schema.Seconds { return o(r).Remainder() }),
	}
}

// engineColumns are owned by the engine's span.
func engineColumns() []column {
	e := func(r *row) *schema.Engine { return &r.part.Engine }
	return []column{
		lowText("engine_service", func(r *row) string { return r.part.Service }),
		lowText("engine_adapter", func(r *row) string { return r.part.Adapter }),
		text("engine_request_id", func(r *row) string { return r.part.RequestID }),
		nanos("engine_start", func(r *row) int64 { return r.part.StartNanos }),
		lowText("engine_model", func(r *row) string { return e(r).Model }),
		count32("engine_tokens_prompt", func(r *row) schema.Count { return e(r).TokensPrompt }),
		count32("engine_tokens_cached", func(r *row) schema.Count { return e(r).TokensCached }),
		count32("engine_tokens_output", func(r *row) schema.Count { return e(r).TokensOutput }),
		seconds32("engine_queue", func(r *row) schema.Seconds { return e(r).Queue }),
		seconds32("engine_prefill", func(r *row) schema.Seconds { return e(r).Prefill }),
		seconds32("engine_decode", func(r *row) schema.Seconds { return e(r).Decode }),
		seconds32("engine_ttft", func(r *row) schema.Seconds { return e(r).TTFT }),
		seconds32("engine_e2e", func(r *row) schema.Seconds { return e(r).E2E }),
	}
}

// movedColumns are owned by transfer spans: bytes that a load moved, by span.
func movedColumns() []column {
	return []column{mapOf("moved", func(r *row) (uint64, uint64, bool) {
		t := &r.part.Transfer
		return r.part.Span.Uint64(), uint64(t.Bytes.V), t.Bytes.OK && (t.Operation == "load" || t.Operation == "")
	})}
}
