package load

import (
	"github.com/ClickHouse/ch-go/proto"

	"github.com/kvwhatif/kvwhatif/schema"
)

// perCandidate is an array column with an element a candidate.
func perCandidate[T any](name string, values proto.ColumnOf[T], push func(*schema.Candidate)) column {
	c := proto.NewArray(values)
	end := func(r *row) {
		list := r.part.Decision.Candidates
		for i := range list {
			push(&list[i])
		}
		c.Offsets = append(c.Offsets, uint64(values.Rows()))
	}
	return column{name, c, end}
}

func candidateText(name string, get func(*schema.Candidate) string) column {
	values := new(proto.ColStr)
	return perCandidate(name, values, func(c *schema.Candidate) { values.Append(get(c)) })
}

func candidateEnum(name string, get func(*schema.Candidate) uint8) column {
	values := new(proto.ColInt8)
	return perCandidate(name, values, func(c *schema.Candidate) { *values = append(*values, int8(get(c))) })
}

func candidateFloat(name string, get func(*schema.Candidate) float64) column {
	values := new(proto.ColFloat32)
	return perCandidate(name, values, func(c *schema.Candidate) { *values = append(*values, float32(get(c))) })
}

func candidateInt32(name string, get func(*schema.Candidate) int64) column {
	values := new(proto.ColInt32)
	return perCandidate(name, values, func(c *schema.Candidate) { *values = append(*values, int32(get(c))) })
}

func candidateInt64(name string, get func(*schema.Candidate) int64) column {
	values := new(proto.ColInt64)
	return perCandidate(name, values, func(c *schema.Candidate) { *values = append(*values, get(c)) })
}

// candidateColumns are the candidate.* columns of requests.
func candidateColumns() []column {
	type c = schema.Candidate
	return []column{
		candidateEnum("candidate.path", func(c *c) uint8 { return uint8(c.Path) }),
		candidateText("candidate.worker", func(c *c) string { return c.Worker }),
		candidateText("candidate.source", func(c *c) string { return c.Source }),
		candidateEnum("candidate.tier", func(c *c) uint8 { return uint8(c.Tier) }),
		candidateText("candidate.links", func(c *c) string { return c.Links }),
		candidateInt32("candidate.tokens_resident", func(c *c) int64 { return c.TokensResident }),
		candidateInt32("candidate.tokens_fetched", func(c *c) int64 { return c.TokensFetched }),
		candidateInt32("candidate.tokens_computed", func(c *c) int64 { return c.TokensComputed }),
		candidateInt64("candidate.bytes", func(c *c) int64 { return c.Bytes }),
		candidateFloat("candidate.gpu_queue", func(c *c) float64 { return c.GPUQueue }),
		candidateFloat("candidate.transfer_queue", func(c *c) float64 { return c.TransferQueue }),
		candidateFloat("candidate.bandwidth", func(c *c) float64 { return c.Bandwidth }),
		candidateFloat("candidate.restore", func(c *c) float64 { return c.Restore }),
		candidateFloat("candidate.recompute", func(c *c) float64 { return c.Recompute }),
		candidateFloat("candidate.ttft", func(c *c) float64 { return c.TTFT }),
		candidateFloat("candidate.externality", func(c *c) float64 { return c.Externality }),
		candidateFloat("candidate.propensity", func(c *c) float64 { return c.Propensity }),
	}
}
