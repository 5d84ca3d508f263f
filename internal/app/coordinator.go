package app

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/calibrate/client"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Policies that a simulated coordinator can decide by.
const (
	PolicyFetchAll = "fetch-all" // fetch every valid prefix, as schedulers ship
	PolicyNever    = "never"     // compute everything that is not resident
	PolicySeedRule = "seed-rule" // fetch unless it loses for this request alone
	PolicyFitted   = "fitted"    // least own TTFT + externality, by the coefficient document
)

// Policies lists them.
func Policies() []string {
	return []string{PolicyFetchAll, PolicyNever, PolicySeedRule, PolicyFitted}
}

// decodeWeight is what a second of a decode's delay is worth against one of TTFT.
const decodeWeight = 0.05

// defaultFallback is what a coordinator predicts by before it has a document:
// the published ladder as a polynomial, and the link's data sheet.
func defaultFallback() client.Fallback {
	p := fleet.DefaultPrior()
	return client.Fallback{Prefill: p.Prefill, Transfer: p.Transfer, Restore: p.Restore}
}

// coordinator decides inside the simulator with the coefficient client, as a real
// one would. It is not safe for concurrent use, and neither is a simulator.
type coordinator struct {
	client   *client.Client
	prior    fleet.Prior
	prefill  map[[2]string]client.PrefillKey
	transfer map[transferName]client.TransferKey
	restore  map[restoreName]client.RestoreKey
	request  client.Request
	out      []client.Prediction
	last     client.Decision
}

type transferName struct {
	tier schema.Tier
	link string
}

type restoreName struct {
	model string
	tier  schema.Tier
}

func newCoordinator(c *client.Client) *coordinator {
	return &coordinator{
		client: c, prior: fleet.DefaultPrior(),
		prefill:  map[[2]string]client.PrefillKey{},
		transfer: map[transferName]client.TransferKey{},
		restore:  map[restoreName]client.RestoreKey{},
		request:  client.Request{Links: make([]client.Link, 1)},
	}
}

// decider gives the policy of that name. Whatever the policy, the predictions it
// logs are the client's.
func (c *coordinator) decider(policy string, e fleet.Exploration) (fleet.Decider, error) {
	switch policy {
	case PolicyFetchAll:
		return fleet.FetchAll(c.predict, e), nil
	case PolicyNever:
		return fleet.Never(c.predict, e), nil
	case PolicySeedRule:
		return fleet.SeedRule(c.predict, e), nil
	case PolicyFitted:
		return func(q *fleet.Query) int {
			c.predict(q)
			return c.last.Chosen
		}, nil
	}
	return nil, fmt.Errorf("no policy %q: choose one of %v", policy, Policies())
}

// revision is that of the document behind the last decision.
func (c *coordinator) revision() int64 { return c.last.Revision }

// predict fills in every candidate's terms and propensity.
func (c *coordinator) predict(q *fleet.Query) {
	r := &c.request
	r.Key = uint64(q.Index)*0x9e3779b97f4a7c15 + 1
	r.Links[0] = client.Link{Own: q.View.Own, Others: q.View.Others, Age: q.View.Age}
	r.Candidates = r.Candidates[:0]
	for i := range q.Candidates {
		r.Candidates = append(r.Candidates, c.describe(q, i))
	}
	c.last = c.client.Decide(r, c.out)
	c.out = c.last.Predictions
	for i := range q.Candidates {
		c.out[i].Fill(&q.Candidates[i])
	}
}

// describe says what a coordinator knows of candidate i.
func (c *coordinator) describe(q *fleet.Query, i int) client.Candidate {
	in := &q.Candidates[i]
	known := float64(in.TokensResident + in.TokensFetched)
	out := client.Candidate{
		Path: in.Path, Prefill: c.prefillKey(q.Model, q.GPU),
		Resident: in.TokensResident, Fetched: in.TokensFetched, Computed: in.TokensComputed, Bytes: in.Bytes,
		GPUQueue: in.GPUQueue, Arrivals: c.prior.Arrivals, Load: c.prior.Load, Active: float64(q.Active[i]),
		AddedStep: c.prior.DecodeStep * c.prior.Prefill.Seconds(float64(in.TokensComputed), known),
	}
	if in.Path == schema.PathRoute {
		out.Hop = c.prior.Hop
	}
	if in.Bytes > 0 {
		out.Transfer, out.Restore = c.transferKey(in.Tier, q.Link), c.restoreKey(q.Model, in.Tier)
	}
	return out
}

func (c *coordinator) prefillKey(model, gpu string) client.PrefillKey {
	name := [2]string{model, gpu}
	k, ok := c.prefill[name]
	if !ok {
		k = c.client.PrefillKey(model, gpu)
		c.prefill[name] = k
	}
	return k
}

func (c *coordinator) transferKey(tier schema.Tier, link string) client.TransferKey {
	name := transferName{tier, link}
	k, ok := c.transfer[name]
	if !ok {
		k = c.client.TransferKey(tier, link)
		c.transfer[name] = k
	}
	return k
}

func (c *coordinator) restoreKey(model string, tier schema.Tier) client.RestoreKey {
	name := restoreName{model, tier}
	k, ok := c.restore[name]
	if !ok {
		k = c.client.RestoreKey(model, tier)
		c.restore[name] = k
	}
	return k
}
