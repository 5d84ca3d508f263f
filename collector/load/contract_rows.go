package load

import (
	"math/bits"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// contractRows are the columns that a contract span owns, as they are copied out
// of a view. Nearly all that load does is here, so there is no call a column, and
// what a span does not say costs nothing.
type contractRows struct {
	minute         *proto.ColDateTime
	id, trace      *proto.ColFixedStr16
	spans          *proto.ColArr[uint64]
	spanOf         *proto.ColUInt64
	contents       *proto.ColArr[uint32]
	contentOf      *proto.ColUInt32
	kind           *proto.ColInt8
	start          *proto.ColDateTime64
	revision       plain[int64]
	path, tier     plain[int8]
	altPath        plain[int8]
	requestID      *sparseText
	texts          [wire.Texts]*dict // but TextRequestID
	chosen         *optional[uint8]
	bytes          *optional[uint64]
	counts         [wire.Counts]*optional[uint32] // but the two above
	seconds        [wire.Durations]*optional[float32]
	remainder      *optional[float32]
	altTTFT        *optional[float32]
	altExternality *optional[float32]
	externality    *optional[float32]
	candidates     candidateRows
}

// Names of the columns of what a View holds by number.
var (
	textNames = [wire.Texts]string{wire.TextAdapter: "adapter", wire.TextService: "service", wire.TextPolicy: "policy",
		wire.TextTenant: "tenant", wire.TextModel: "model", wire.TextGPU: "gpu", wire.TextWorker: "worker",
		wire.TextSourceWorker: "source_worker", wire.TextLink: "link"}
	countNames = [wire.Counts]string{wire.CountTokensPrompt: "tokens_prompt", wire.CountTokensPrefix: "tokens_prefix",
		wire.CountTokensReused: "tokens_reused", wire.CountLinkFlows: "link_flows", wire.CountWorkerActive: "worker_active"}
	secondsNames = [wire.Durations]string{wire.SecondsGPUQueue: "gpu_queue", wire.SecondsTransferQueue: "transfer_queue",
		wire.SecondsTransfer: "transfer", wire.SecondsTransferStart: "transfer_start", wire.SecondsExposedStall: "exposed_stall",
		wire.SecondsRestore: "restore", wire.SecondsPrefill: "prefill", wire.SecondsTTFT: "ttft", wire.SecondsStateAge: "state_age"}
)

func newContractRows() (*contractRows, []column) {
	c := &contractRows{minute: new(proto.ColDateTime), id: new(proto.ColFixedStr16), trace: new(proto.ColFixedStr16),
		spanOf: new(proto.ColUInt64), contentOf: new(proto.ColUInt32), kind: new(proto.ColInt8),
		start: new(proto.ColDateTime64).WithPrecision(proto.PrecisionNano)}
	c.spans, c.contents = proto.NewArray[uint64](c.spanOf), proto.NewArray[uint32](c.contentOf)
	s := &columnSet{}
	s.always("minute", c.minute)
	s.always("id", c.id)
	s.always("trace", c.trace)
	s.always("spans", c.spans)
	s.always("contents", c.contents)
	s.always("kind", c.kind)
	s.always("start", c.start)
	c.revision, c.path, c.tier, c.altPath = s.int64("revision"), s.enum("path"), s.enum("tier"), s.enum("alt_path")
	c.requestID, c.chosen, c.bytes = s.text("request_id"), s.uint8("chosen"), s.uint64("bytes")
	c.remainder, c.altTTFT = s.float32("remainder"), s.float32("alt_ttft")
	c.altExternality, c.externality = s.float32("alt_externality"), s.float32("externality")
	c.numbered(s)
	*s = append(*s, c.candidates.columns()...)
	return c, *s
}

// numbered makes the columns of what a View holds by number.
func (c *contractRows) numbered(s *columnSet) {
	for i, name := range textNames {
		if name != "" {
			c.texts[i] = s.low(name)
		}
	}
	for i, name := range countNames {
		if name != "" {
			c.counts[i] = s.uint32(name)
		}
	}
	for i, name := range secondsNames {
		c.seconds[i] = s.float32(name)
	}
}

// add puts what r.view says into a row.
func (c *contractRows) add(row int, r *row) {
	v := r.view
	c.minute.Data, *c.id, *c.trace = append(c.minute.Data, proto.DateTime(r.minute)), append(*c.id, r.id), append(*c.trace, r.trace)
	*c.spanOf, *c.contentOf = append(*c.spanOf, v.Span.Uint64()), append(*c.contentOf, r.content)
	c.spans.Offsets, c.contents.Offsets = append(c.spans.Offsets, uint64(row+1)), append(c.contents.Offsets, uint64(row+1))
	*c.kind, c.start.Data = append(*c.kind, int8(r.kind)), append(c.start.Data, proto.DateTime64(v.StartNanos))
	if v.Revision != 0 {
		c.revision.set(row, v.Revision)
	}
	if v.Path != 0 {
		c.path.set(row, int8(v.Path))
	}
	if v.SourceTier != 0 {
		c.tier.set(row, int8(v.SourceTier))
	}
	c.said(row, v)
	if len(v.Candidates) > 0 {
		c.candidates.set(row, v.Candidates)
		c.weighed(row, r)
	}
}

// said copies what a View holds by number.
func (c *contractRows) said(row int, v *wire.View) {
	const requestID, chosen, bytes = 1 << wire.TextRequestID, 1 << wire.CountChosen, 1 << wire.CountBytes
	if v.HasTexts&requestID != 0 {
		c.requestID.set(row, v.Texts[wire.TextRequestID])
	}
	for has := v.HasTexts &^ requestID; has != 0; has &= has - 1 {
		i := bits.TrailingZeros32(has)
		c.texts[i].set(row, v.Texts[i])
	}
	if v.HasCounts&chosen != 0 {
		c.chosen.set(row, uint8(v.Counts[wire.CountChosen]))
	}
	if v.HasCounts&bytes != 0 {
		c.bytes.set(row, uint64(v.Counts[wire.CountBytes]))
	}
	for has := v.HasCounts &^ (chosen | bytes); has != 0; has &= has - 1 {
		i := bits.TrailingZeros32(has)
		c.counts[i].set(row, uint32(v.Counts[i]))
	}
	for has := v.HasSeconds; has != 0; has &= has - 1 {
		i := bits.TrailingZeros32(has)
		c.seconds[i].set(row, float32(v.Seconds[i]))
	}
	if rest := remainder(v); rest.OK {
		c.remainder.set(row, float32(rest.V))
	}
}

// weighed sets what the choice is weighed against.
func (c *contractRows) weighed(row int, r *row) {
	list := r.view.Candidates
	if alt := candidateAt(list, r.alt); alt.Path != 0 {
		c.altPath.set(row, int8(alt.Path))
	}
	if ttft := known(candidateAt(list, r.alt).TTFT); ttft.OK {
		c.altTTFT.set(row, float32(ttft.V))
	}
	if e := imposed(list, r.alt, r.chosen); e.OK {
		c.altExternality.set(row, float32(e.V))
	}
	if e := imposed(list, r.chosen, r.alt); e.OK {
		c.externality.set(row, float32(e.V))
	}
}

func remainder(v *wire.View) schema.Seconds {
	o := schema.Observed{TTFT: v.Second(wire.SecondsTTFT), GPUQueue: v.Second(wire.SecondsGPUQueue),
		ExposedStall: v.Second(wire.SecondsExposedStall), Restore: v.Second(wire.SecondsRestore), Prefill: v.Second(wire.SecondsPrefill)}
	return o.Remainder()
}
