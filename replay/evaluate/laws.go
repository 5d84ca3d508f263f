package evaluate

import (
	"math"
	"strings"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// costs is what a candidate is predicted to cost: own TTFT and what it imposes,
// seconds. Without a document that is what was logged. With one, the terms that it
// has a law for are worked out anew, within what its fit saw; the GPU's queue, and
// what computing imposes on others, are as logged (the latter in proportion to the
// computing). NaN where it is not known.
func (p *Policy) costs(d *schema.Decision, c *schema.Candidate) float64 {
	if p.Document == nil {
		return c.TTFT + orNone(c.Externality)
	}
	compute := p.recompute(d, c)
	if c.Bytes <= 0 {
		return c.TTFT + compute - c.Recompute + orNone(c.Externality)*share(compute, c.Recompute)
	}
	law := p.transfer(c)
	bytes, flows := float64(c.Bytes), math.Max(0, float64(d.LinkFlows.V))
	if law == nil || bytes > law.Quality.MaxBytes || 1+flows > math.Max(1, law.Quality.MaxConcurrent) {
		return c.TTFT + compute - c.Recompute + orNone(c.Externality)
	}
	path := cost.Path{GPUQueue: c.GPUQueue, TransferQueue: law.Law.T0, Transfer: law.Law.WireSeconds(bytes, 1+flows), Restore: p.restore(d, c), Prefill: compute}
	size := law.Law.WireBytes(bytes)
	imposed := cost.MeanExternality(law.Law.Link, size, flows, size)
	for _, l := range p.Document.Links {
		if l.Link == bottleneck(c) {
			imposed = l.Price.Toll(size, flows, law.Law.Link.B)
		}
	}
	return path.TTFT() + imposed + p.onGPU(d, compute)
}

// onGPU is what computing imposes, by what the decision's recompute was said to.
func (p *Policy) onGPU(d *schema.Decision, seconds float64) float64 {
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Path == schema.PathRecompute && c.Recompute > 0 {
			return orNone(c.Externality) * share(seconds, c.Recompute)
		}
	}
	return 0
}

func share(x, of float64) float64 {
	if of > 0 {
		return x / of
	}
	return 1
}

func (p *Policy) recompute(d *schema.Decision, c *schema.Candidate) float64 {
	for i := range p.Document.Prefill {
		f := &p.Document.Prefill[i]
		before, n := float64(c.TokensResident+c.TokensFetched), float64(c.TokensComputed)
		if f.Model == d.Model && f.GPU == d.GPU && before+n <= f.Quality.MaxTokens {
			return f.Law.Seconds(n, before)
		}
	}
	return c.Recompute
}

func (p *Policy) restore(d *schema.Decision, c *schema.Candidate) float64 {
	for i := range p.Document.Restore {
		f := &p.Document.Restore[i]
		if f.Model == d.Model && f.Tier == c.Tier.String() && float64(c.Bytes) <= f.Quality.MaxBytes {
			return f.Law.Seconds(float64(c.Bytes))
		}
	}
	return orNone(c.Restore)
}

func (p *Policy) transfer(c *schema.Candidate) *schema.TransferFit {
	for i := range p.Document.Transfer {
		if f := &p.Document.Transfer[i]; f.Tier == c.Tier.String() && f.Link == bottleneck(c) {
			return f
		}
	}
	return nil
}

// bottleneck is the first of the candidate's links.
func bottleneck(c *schema.Candidate) string {
	link, _, _ := strings.Cut(c.Links, "+")
	return link
}
