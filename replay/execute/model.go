package execute

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Predict is m_b, the TTFT of a candidate at a load, in seconds. It is one
// formula for the load of the decision and for that of the replay, so that their
// difference is the model's and nothing else's: the sum of stages of cost.Path
// with the candidate's logged terms, where the GPU queue is that of at, and the
// wire time that the decision predicted is scaled by (1 + flows at) / (1 + flows
// at the decision), as flows that share a link equally. A load that is not known
// leaves its term as logged. What a candidate's logged TTFT has beside these
// terms (a hop, streaming) is the same at both loads. NaN where the terms do not
// suffice.
func Predict(c *schema.Candidate, decision, at State) float64 {
	queue := at.GPUQueue
	if math.IsNaN(queue) {
		queue = zeroIfNaN(c.GPUQueue)
	}
	p := cost.Path{
		GPUQueue: queue, TransferQueue: zeroIfNaN(c.TransferQueue),
		Restore: zeroIfNaN(c.Restore), Prefill: c.Recompute,
	}
	if c.Bytes > 0 {
		p.Transfer = float64(c.Bytes) / c.Bandwidth * sharing(decision.Flows, at.Flows)
	} else {
		p.TransferQueue = 0
	}
	return p.TTFT()
}

func sharing(decided, now float64) float64 {
	if math.IsNaN(decided) || math.IsNaN(now) {
		return 1
	}
	return (1 + now) / (1 + decided)
}

func zeroIfNaN(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// Estimate is what a leg is expected to cost: the GPU for computing and
// restoring, and the bytes moved.
func (l *Leg) Estimate() Cost {
	c := &l.Candidate
	return Cost{
		GPUSeconds: zeroIfNaN(c.Recompute) + zeroIfNaN(c.Restore),
		Bytes:      math.Max(0, float64(c.Bytes)),
	}
}
