package budget

import "math"

// Bucket is what a bucket holds at an instant.
type Bucket struct {
	Tokens float64 `json:"tokens"` // GPU-seconds or bytes; below 0: debt
	At     int64   `json:"at"`     // Unix nanoseconds of its last refill
}

// State is a ledger, or a part of one, as it is kept over a restart.
type State struct {
	Workers    map[string]Bucket `json:"workers,omitempty"` // GPU-seconds; "" for a pool
	Links      map[string]Bucket `json:"links,omitempty"`   // bytes
	Production Charge            `json:"production"`        // cost seen, in all
	Legs       Charge            `json:"legs"`              // cost charged, in all
}

// Merge puts later buckets and totals in the place of earlier ones.
func (s *State) Merge(later State) {
	if s.Workers == nil {
		s.Workers, s.Links = map[string]Bucket{}, map[string]Bucket{}
	}
	for name, b := range later.Workers {
		s.Workers[name] = b
	}
	for name, b := range later.Links {
		s.Links[name] = b
	}
	s.Production, s.Legs = later.Production, later.Legs
}

// State gives the whole ledger.
func (b *Ledger) State() State { return b.state(func(*bucket) bool { return true }) }

// Changed gives the totals and the buckets that were earned to or charged since it
// was last asked.
func (b *Ledger) Changed() State {
	return b.state(func(k *bucket) bool {
		changed := k.changed
		k.changed = false
		return changed
	})
}

func (b *Ledger) state(which func(*bucket) bool) State {
	out := State{Workers: map[string]Bucket{}, Links: map[string]Bucket{}, Production: b.earned, Legs: b.spent}
	for set, into := range map[*map[string]*bucket]map[string]Bucket{&b.workers: out.Workers, &b.links: out.Links} {
		for name, k := range *set {
			if which(k) {
				into[name] = Bucket{k.tokens, k.at}
			}
		}
	}
	return out
}

// Restore takes over what an earlier ledger held, at most the bursts of this one.
// Time that passed since fills the buckets as if nothing had happened.
func (b *Ledger) Restore(s State) {
	for name, k := range s.Workers {
		b.workers[name] = &bucket{tokens: math.Min(b.limits.GPUBurst, finite(k.Tokens)), at: k.At}
	}
	for name, k := range s.Links {
		b.links[name] = &bucket{tokens: math.Min(b.limits.ByteBurst, finite(k.Tokens)), at: k.At}
	}
	b.earned, b.spent = s.Production, s.Legs
}
