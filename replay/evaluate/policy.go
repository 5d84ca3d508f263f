package evaluate

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// PolicySchema is the JSON Schema of a policy file.
//
//go:embed policy.schema.json
var PolicySchema []byte

// The kinds of policy; PolicySchema says what each does.
const (
	KindAlways    = "always"
	KindNever     = "never"
	KindSeedRule  = "seed-rule"
	KindThreshold = "threshold"
	KindCostModel = "cost-model"
	KindLinkPrice = "link-price"
	KindLogged    = "logged"
)

var kinds = []string{KindAlways, KindNever, KindSeedRule, KindThreshold, KindCostModel, KindLinkPrice, KindLogged}

// Policy is a rule that may never have run. It sees what a decision logged, and
// nothing that came after it.
type Policy struct {
	Name         string  `json:"name,omitempty"`
	Kind         string  `json:"kind"`
	Path         string  `json:"path,omitempty"`           // fetch or route
	Margin       float64 `json:"margin_seconds,omitempty"` // seconds
	Others       bool    `json:"others,omitempty"`         // count effects on others in the margin
	MinTokens    int64   `json:"min_tokens,omitempty"`     // that a reuse must save
	Coefficients string  `json:"coefficients,omitempty"`   // name of a file
	Load         float64 `json:"load,omitempty"`           // of the price
	MeanBytes    float64 `json:"mean_bytes,omitempty"`     // of the price
	Bandwidth    float64 `json:"bandwidth,omitempty"`      // bytes/s

	// Document holds what Coefficients names; whoever reads the file sets it.
	Document *schema.Document `json:"-"`
}

// ParsePolicy reads the JSON of a policy file. The error says what to write.
func ParsePolicy(raw []byte) (*Policy, error) {
	p := &Policy{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if p.Path == "" {
		p.Path = schema.PathFetch.String()
	}
	if p.Name == "" {
		p.Name = p.Kind
	}
	return p, p.validate()
}

func (p *Policy) validate() error {
	priced := p.Load != 0 || p.MeanBytes != 0 || p.Bandwidth != 0
	switch {
	case !slices.Contains(kinds, p.Kind):
		return fmt.Errorf("policy: its kind is %q: give one of %v", p.Kind, kinds)
	case p.Path != "fetch" && p.Path != "route":
		return fmt.Errorf("policy: its path is %q: give fetch or route", p.Path)
	case p.MinTokens < 0:
		return fmt.Errorf("policy: min_tokens is %d: give 0 or more", p.MinTokens)
	case p.Coefficients != "" && p.Kind != KindCostModel && p.Kind != KindLinkPrice:
		return fmt.Errorf("policy: coefficients do nothing in a policy of kind %s: leave them out, or give kind cost-model or link-price", p.Kind)
	case (p.Margin != 0 || p.Others) && p.Kind != KindThreshold:
		return fmt.Errorf("policy: margin_seconds and others do nothing in a policy of kind %s: leave them out, or give kind threshold", p.Kind)
	case priced && p.Kind != KindLinkPrice:
		return fmt.Errorf("policy: load, mean_bytes and bandwidth do nothing in a policy of kind %s: leave them out, or give kind link-price", p.Kind)
	case p.Kind == KindLinkPrice && p.Coefficients == "" && !(p.Load > 0 && p.Load < 1 && p.MeanBytes > 0 && p.Bandwidth > 0):
		return fmt.Errorf("policy: a link price needs coefficients, or load (above 0, below 1), mean_bytes and bandwidth")
	}
	return nil
}

// Choose gives the path that the policy runs, and false where what it needs was
// not logged. It chooses among the logged choice and, of each other path, the
// candidate that a replay of it runs; where it does not say otherwise it keeps the
// logged choice.
func (p *Policy) Choose(d *schema.Decision) (schema.Path, bool) {
	by := sample.Alternatives(d)
	if d.Path == schema.PathNone || int(d.Path) >= len(by) || by[d.Path] < 0 {
		return schema.PathNone, false
	}
	return p.pick(d, by, d.Path)
}

// pick chooses among the candidates that by names; else is what it takes where it
// does not say.
func (p *Policy) pick(d *schema.Decision, by [sample.NumPaths]int, otherwise schema.Path) (schema.Path, bool) {
	switch p.Kind {
	case KindLogged:
		return otherwise, true
	case KindCostModel:
		return p.cheapest(d, by)
	}
	reuse, _ := schema.ParsePath(p.Path)
	if p.Kind != KindAlways && p.Kind != KindThreshold {
		reuse = schema.PathFetch
	}
	compute := schema.PathRecompute
	if by[compute] < 0 {
		compute = schema.PathResident
	}
	switch {
	case by[reuse] < 0 && by[compute] < 0:
		return otherwise, true
	case by[reuse] < 0:
		return compute, true
	case by[compute] < 0:
		return p.only(d, by, reuse, otherwise)
	}
	take, ok := p.reuses(d, &d.Candidates[by[reuse]], &d.Candidates[by[compute]])
	if take {
		return reuse, ok
	}
	return compute, ok
}

// only is the answer where nothing can be computed on this worker.
func (p *Policy) only(d *schema.Decision, by [sample.NumPaths]int, reuse, otherwise schema.Path) (schema.Path, bool) {
	if p.Kind == KindAlways && p.saves(&d.Candidates[by[reuse]]) {
		return reuse, true
	}
	return otherwise, true
}

// saves says whether enough tokens are not computed.
func (p *Policy) saves(c *schema.Candidate) bool {
	if c.Path == schema.PathFetch {
		return c.TokensFetched >= p.MinTokens
	}
	return c.TokensResident >= p.MinTokens
}

func (p *Policy) reuses(d *schema.Decision, reuse, compute *schema.Candidate) (take, ok bool) {
	switch {
	case p.Kind == KindNever || !p.saves(reuse):
		return false, true
	case p.Kind == KindAlways:
		return true, true
	case p.Kind == KindSeedRule:
		in := cost.SeedInput{
			Bytes: float64(reuse.Bytes), Bandwidth: reuse.Bandwidth, GPUQueue: reuse.GPUQueue, TransferQueue: reuse.TransferQueue,
			Restore: reuse.Restore, Recompute: compute.Recompute - reuse.Recompute,
		}
		return !in.FetchLoses(), finite(in.FetchSeconds()) && finite(in.RecomputeSeconds())
	case p.Kind == KindThreshold:
		margin := compute.TTFT - reuse.TTFT
		if p.Others {
			margin += compute.Externality - reuse.Externality
		}
		return margin > p.Margin, finite(margin)
	}
	return p.admits(d, reuse, compute)
}

// admits asks the price of the link. Flows are those that the decision logged.
func (p *Policy) admits(d *schema.Decision, fetch, compute *schema.Candidate) (take, ok bool) {
	price, capacity, bytes := cost.Price{Load: p.Load, MeanBytes: p.MeanBytes}, p.Bandwidth, float64(fetch.Bytes)
	if p.Document != nil {
		found := false
		link := bottleneck(fetch)
		for _, l := range p.Document.Links {
			if l.Link == link {
				price, found = l.Price, true
			}
		}
		law := p.transfer(fetch)
		if !found || law == nil {
			return false, false
		}
		capacity, bytes = law.Law.Link.B, law.Law.WireBytes(bytes)
	}
	flows := math.Max(0, float64(d.LinkFlows.V))
	gain := compute.Recompute - fetch.Recompute
	spared := orNone(compute.Externality) * gain / compute.Recompute
	take = price.Admit(bytes, flows, capacity, compute.GPUQueue, gain, spared)
	return take, d.LinkFlows.OK && finite(bytes*capacity) && finite(compute.GPUQueue) && finite(gain) && finite(spared)
}

func orNone(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// cheapest is the path of the least TTFT and effect on others.
func (p *Policy) cheapest(d *schema.Decision, by [sample.NumPaths]int) (schema.Path, bool) {
	best, least := schema.PathNone, math.Inf(1)
	for path, i := range by {
		if i < 0 || (!p.saves(&d.Candidates[i]) && schema.Path(path) == schema.PathFetch) {
			continue
		}
		if c := p.costs(d, &d.Candidates[i]); c < least {
			best, least = schema.Path(path), c
		}
	}
	return best, best != schema.PathNone
}
