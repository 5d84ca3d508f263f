package fleet

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Prior is a cost model that nobody fitted: what a coordinator predicts by before
// it has coefficients.
type Prior struct {
	Prefill  cost.Prefill
	Transfer cost.Transfer
	Restore  cost.Restore
	Hop      float64 // seconds

	MeanBytes    float64 // of a transfer on the link: the others' expected size
	Arrivals     float64 // requests a second on a worker
	Load         float64 // of a worker's GPU, below 1
	DecodeStep   float64 // share of a prefill by which it holds up each active decode
	DecodeWeight float64 // what a second of a decode's delay is worth against one of TTFT
}

// DefaultPrior is the published prefill ladder as a straight polynomial
// (44.5 ms + 18.9 µs a token + 0.1 ns a token squared, halves included), and the
// link's data sheet.
func DefaultPrior() Prior {
	return Prior{
		Prefill:  cost.Prefill{C0: 0.0445, C1: 1.89e-5, C2: 1e-10},
		Transfer: cost.Transfer{T0: 2e-3, Link: cost.Link{B: 50e9}},
		Restore:  cost.Restore{D0: 1e-3, D1: 1 / 200e9},
		Hop:      1e-3, MeanBytes: 1.2e9, Arrivals: 2, Load: 0.55, DecodeStep: 0.3, DecodeWeight: 0.05,
	}
}

// Predict fills in every candidate's terms: all but Propensity.
func (p *Prior) Predict(q *Query) {
	others := math.Max(0, q.View.Own+q.View.Others)
	for i := range q.Candidates {
		c := &q.Candidates[i]
		known := float64(c.TokensResident + c.TokensFetched)
		c.Recompute = p.Prefill.Seconds(float64(c.TokensComputed), known)
		path := cost.Path{GPUQueue: c.GPUQueue, Prefill: c.Recompute}
		c.Externality = cost.ComputeExternality(c.Recompute, c.GPUQueue, p.Arrivals, p.Load) +
			cost.DecodeExternality(float64(q.Active[i]), p.DecodeStep*c.Recompute, p.DecodeWeight)
		switch c.Path {
		case schema.PathFetch:
			p.fetch(c, &path, others)
		case schema.PathRoute:
			path.Hop = p.Hop
		}
		c.TTFT = path.TTFT()
	}
}

func (p *Prior) fetch(c *schema.Candidate, path *cost.Path, others float64) {
	bytes := float64(c.Bytes)
	c.TransferQueue = p.Transfer.T0 + p.Transfer.Cold
	c.Bandwidth = p.Transfer.Link.FlowRate(others + 1)
	c.Restore = p.Restore.Seconds(bytes)
	path.TransferQueue, path.Transfer, path.Restore = c.TransferQueue, bytes/c.Bandwidth, c.Restore
	c.Externality += others * math.Min(bytes, p.MeanBytes) / p.Transfer.Link.B
}
