package load

import (
	"math"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/kvwhatif/kvwhatif/schema"
)

// candidateRows are the candidate.* columns of requests: arrays with an element a
// candidate, and so with the same ends.
type candidateRows struct {
	ends                               proto.ColUInt64
	path, tier                         proto.ColInt8
	worker, source, links              proto.ColStr
	resident, fetched, computed        proto.ColInt32
	bytes                              proto.ColInt64
	gpuQueue, transferQueue, bandwidth proto.ColFloat32
	restore, recompute, ttft           proto.ColFloat32
	externality, propensity            proto.ColFloat32
}

func (c *candidateRows) columns() []column {
	list := func(name string, values proto.ColInput) column {
		return column{name: "candidate." + name, data: listed{(*[]uint64)(&c.ends), values}, fit: c.fit}
	}
	return []column{
		list("path", &c.path), list("worker", &c.worker), list("source", &c.source), list("tier", &c.tier), list("links", &c.links),
		list("tokens_resident", &c.resident), list("tokens_fetched", &c.fetched), list("tokens_computed", &c.computed),
		list("bytes", &c.bytes), list("gpu_queue", &c.gpuQueue), list("transfer_queue", &c.transferQueue),
		list("bandwidth", &c.bandwidth), list("restore", &c.restore), list("recompute", &c.recompute), list("ttft", &c.ttft),
		list("externality", &c.externality), list("propensity", &c.propensity),
	}
}

// set gives a row its candidates.
func (c *candidateRows) set(row int, candidates []schema.Candidate) {
	c.fit(row)
	for i := range candidates {
		x := &candidates[i]
		c.path, c.tier = append(c.path, int8(x.Path)), append(c.tier, int8(x.Tier))
		c.worker.Append(x.Worker)
		c.source.Append(x.Source)
		c.links.Append(x.Links)
		c.resident, c.fetched = append(c.resident, int32(x.TokensResident)), append(c.fetched, int32(x.TokensFetched))
		c.computed, c.bytes = append(c.computed, int32(x.TokensComputed)), append(c.bytes, x.Bytes)
		c.gpuQueue, c.transferQueue = append(c.gpuQueue, float32(x.GPUQueue)), append(c.transferQueue, float32(x.TransferQueue))
		c.bandwidth, c.restore = append(c.bandwidth, float32(x.Bandwidth)), append(c.restore, float32(x.Restore))
		c.recompute, c.ttft = append(c.recompute, float32(x.Recompute)), append(c.ttft, float32(x.TTFT))
		c.externality, c.propensity = append(c.externality, float32(x.Externality)), append(c.propensity, float32(x.Propensity))
	}
	c.ends = append(c.ends, uint64(len(c.path)))
}

func (c *candidateRows) fit(rows int) { c.ends = fitted(c.ends, rows, uint64(len(c.path))) }

// candidateAt gives candidate i, or one of which nothing is known.
func candidateAt(list []schema.Candidate, i int) schema.Candidate {
	if i < 0 || i >= len(list) {
		return schema.Candidate{TTFT: math.NaN(), Externality: math.NaN()}
	}
	return list[i]
}

// known is v, missing where it is NaN.
func known(v float64) schema.Seconds { return schema.Seconds{V: v, OK: !math.IsNaN(v)} }

// imposed is the externality of candidate i, beside that of other. A NaN is "not
// applicable", and counts as none; but of a candidate that moves bytes it says that
// nobody predicted the delay, which is missing where that of the other was
// predicted: no benefit comes of what was left out.
func imposed(list []schema.Candidate, i, other int) schema.Seconds {
	if i < 0 || i >= len(list) {
		return schema.Seconds{}
	}
	own := known(list[i].Externality)
	if own.OK || list[i].Bytes > 0 && other >= 0 && other < len(list) && known(list[other].Externality).OK {
		return own
	}
	return schema.Some(0.0)
}
