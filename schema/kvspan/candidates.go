package kvspan

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/kvwhatif/kvwhatif/schema"
)

// candidates writes the candidates as parallel arrays, one element a candidate,
// so that any OpenTelemetry SDK can write them.
func (a *list) candidates(cs []schema.Candidate) {
	strings := func(key string, get func(*schema.Candidate) string) {
		*a = append(*a, attribute.StringSlice(key, column(cs, get)))
	}
	ints := func(key string, get func(*schema.Candidate) int64) {
		*a = append(*a, attribute.Int64Slice(key, column(cs, get)))
	}
	floats := func(key string, get func(*schema.Candidate) float64) {
		*a = append(*a, attribute.Float64Slice(key, column(cs, get)))
	}
	strings(schema.AttrCandidatePath, func(c *schema.Candidate) string { return c.Path.String() })
	strings(schema.AttrCandidateWorker, func(c *schema.Candidate) string { return c.Worker })
	strings(schema.AttrCandidateSource, func(c *schema.Candidate) string { return c.Source })
	strings(schema.AttrCandidateTier, func(c *schema.Candidate) string { return c.Tier.String() })
	strings(schema.AttrCandidateLinks, func(c *schema.Candidate) string { return c.Links })
	ints(schema.AttrCandidateTokensResident, func(c *schema.Candidate) int64 { return c.TokensResident })
	ints(schema.AttrCandidateTokensFetched, func(c *schema.Candidate) int64 { return c.TokensFetched })
	ints(schema.AttrCandidateTokensComputed, func(c *schema.Candidate) int64 { return c.TokensComputed })
	ints(schema.AttrCandidateBytes, func(c *schema.Candidate) int64 { return c.Bytes })
	floats(schema.AttrCandidateGPUQueue, func(c *schema.Candidate) float64 { return c.GPUQueue })
	floats(schema.AttrCandidateTransferQueue, func(c *schema.Candidate) float64 { return c.TransferQueue })
	floats(schema.AttrCandidateBandwidth, func(c *schema.Candidate) float64 { return c.Bandwidth })
	floats(schema.AttrCandidateRestore, func(c *schema.Candidate) float64 { return c.Restore })
	floats(schema.AttrCandidateRecompute, func(c *schema.Candidate) float64 { return c.Recompute })
	floats(schema.AttrCandidateTTFT, func(c *schema.Candidate) float64 { return c.TTFT })
	floats(schema.AttrCandidateExternality, func(c *schema.Candidate) float64 { return c.Externality })
	floats(schema.AttrCandidatePropensity, func(c *schema.Candidate) float64 { return c.Propensity })
}

func column[T any](cs []schema.Candidate, get func(*schema.Candidate) T) []T {
	out := make([]T, len(cs))
	for i := range cs {
		out[i] = get(&cs[i])
	}
	return out
}
