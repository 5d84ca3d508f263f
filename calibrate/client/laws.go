package client

import (
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Keys stand for names, so that a decision looks nothing up by string. The zero
// key stands for no law, and gives the fallback. A key stays good for the life of
// its client, whatever is published.
type (
	PrefillKey  int32 // (model, GPU)
	TransferKey int32 // (tier, link)
	RestoreKey  int32 // (model, tier)
)

type pair [2]string

// names gives each pair a number, from 1, and never takes it back.
type names struct {
	prefill, transfer, restore map[pair]int32
}

func newNames() names {
	return names{prefill: map[pair]int32{}, transfer: map[pair]int32{}, restore: map[pair]int32{}}
}

// PrefillKey gives the key of the prefill law of model on gpu. Ask once, not for
// each request: it takes a lock.
func (c *Client) PrefillKey(model, gpu string) PrefillKey {
	return PrefillKey(c.key(c.keys.prefill, pair{model, gpu}))
}

// TransferKey gives the key of the law, and the price, of fetching from tier
// over link.
func (c *Client) TransferKey(tier schema.Tier, link string) TransferKey {
	return TransferKey(c.key(c.keys.transfer, pair{tier.String(), link}))
}

// RestoreKey gives the key of the restore law of model's state out of tier.
func (c *Client) RestoreKey(model string, tier schema.Tier) RestoreKey {
	return RestoreKey(c.key(c.keys.restore, pair{model, tier.String()}))
}

func (c *Client) key(table map[pair]int32, p pair) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := table[p]; ok {
		return k
	}
	k := int32(len(table) + 1)
	table[p] = k
	c.recompileLocked()
	return k
}

// laws is a document as Decide reads it: laws by key, element 0 the fallback. It
// is never changed once stored.
type laws struct {
	state    State
	revision int64
	prefill  []prefillLaw
	transfer []transferLaw
	restore  []restoreLaw

	queueFitted              bool
	queueBias, queueSlope    float64
	omega                    float64
	tie, explore, tpotWeight float64
	salt                     uint64
}

type prefillLaw struct {
	law       cost.Prefill
	maxTokens float64 // validity box; negative where there is no law
}

type transferLaw struct {
	law                     cost.Transfer
	maxBytes, maxConcurrent float64 // validity box; maxBytes negative where there is no law
	priced                  bool
	price                   cost.Price
	coordinators            float64
}

type restoreLaw struct {
	law      cost.Restore
	maxBytes float64 // validity box; negative where there is no law
}

func compile(d *schema.Document, state State, keys *names, cfg *Config) *laws {
	l := &laws{
		state: state, tie: cfg.TieFraction, explore: cfg.Explore, salt: cfg.Salt, tpotWeight: cfg.DecodeWeight,
		prefill:  make([]prefillLaw, len(keys.prefill)+1),
		transfer: make([]transferLaw, len(keys.transfer)+1),
		restore:  make([]restoreLaw, len(keys.restore)+1),
	}
	for i := range l.prefill {
		l.prefill[i] = prefillLaw{law: cfg.Fallback.Prefill, maxTokens: -1}
	}
	for i := range l.transfer {
		l.transfer[i] = transferLaw{law: cfg.Fallback.Transfer, maxBytes: -1}
	}
	for i := range l.restore {
		l.restore[i] = restoreLaw{law: cfg.Fallback.Restore, maxBytes: -1}
	}
	if d != nil && state != FallBack {
		l.fill(d, keys)
	}
	return l
}

func (l *laws) fill(d *schema.Document, keys *names) {
	l.revision = d.Revision
	for _, f := range d.Prefill {
		if k := keys.prefill[pair{f.Model, f.GPU}]; k > 0 {
			l.prefill[k] = prefillLaw{law: f.Law, maxTokens: f.Quality.MaxTokens}
		}
	}
	prices := map[string]schema.LinkPrice{}
	for _, p := range d.Links {
		prices[p.Link] = p
	}
	for _, f := range d.Transfer {
		k := keys.transfer[pair{f.Tier, f.Link}]
		if k == 0 {
			continue
		}
		t := transferLaw{law: f.Law, maxBytes: f.Quality.MaxBytes, maxConcurrent: f.Quality.MaxConcurrent}
		if p, ok := prices[f.Link]; ok && l.state != Expired {
			t.priced, t.price, t.coordinators = true, p.Price, float64(p.Coordinators)
		}
		l.transfer[k] = t
	}
	for _, f := range d.Restore {
		if k := keys.restore[pair{f.Model, f.Tier}]; k > 0 {
			l.restore[k] = restoreLaw{law: f.Law, maxBytes: f.Quality.MaxBytes}
		}
	}
	if q := d.Queue; q.Quality.N > 0 {
		l.queueFitted, l.queueBias, l.queueSlope, l.omega = true, q.Bias, q.Slope, q.Omega
	}
}
