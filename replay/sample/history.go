package sample

import (
	"errors"
	"fmt"
	"math"
)

// Entry is a plan of a history, and from when decisions are drawn by it. With the
// salt it makes every draw repeatable; without, every probability.
type Entry struct {
	Since  int64  `json:"since_unix_nanos"` // start of the first decision; 0: always
	ID     string `json:"id"`
	Base   string `json:"base"` // id of the plan of the settings that it is, or was adapted from
	Why    string `json:"why"`  // what it was made for
	Params Params `json:"params"`
}

// History is the plans that were in force, one after the other. A decision is
// drawn by the plan of its start, whenever it is read: so draws are repeatable
// although the plan changes. It is not safe for concurrent use.
type History struct {
	entries []Entry
	plans   []*Plan // nil where the salt at hand is not the plan's
}

// NewHistory begins with a plan of the settings.
func NewHistory(p *Plan) *History {
	return &History{entries: []Entry{{ID: p.ID(), Base: p.ID(), Why: "settings", Params: p.Params()}}, plans: []*Plan{p}}
}

// RestoreHistory takes up entries that were kept, under the plan's own salt.
func (p *Plan) RestoreHistory(entries []Entry) (*History, error) {
	return RestoreHistory(entries, p.salt)
}

// RestoreHistory takes up entries that were kept. An entry that another salt made
// stays, but its draws can not be repeated.
func RestoreHistory(entries []Entry, salt []byte) (*History, error) {
	if len(entries) == 0 {
		return nil, errors.New("sampling plans: the history is empty")
	}
	h := &History{}
	for _, e := range entries {
		p, err := New(e.Params, salt)
		if err != nil {
			return nil, fmt.Errorf("sampling plan %s: %w", e.ID, err)
		}
		if p.ID() != e.ID {
			p = nil
		}
		if n := len(h.entries); n > 0 && e.Since <= h.entries[n-1].Since {
			return nil, fmt.Errorf("sampling plan %s does not follow %s in time", e.ID, h.entries[n-1].ID)
		}
		h.entries, h.plans = append(h.entries, e), append(h.plans, p)
	}
	return h, nil
}

// Entries gives a copy, the oldest first.
func (h *History) Entries() []Entry {
	out := make([]Entry, len(h.entries))
	for i, e := range h.entries {
		e.Params = e.Params.clone()
		out[i] = e
	}
	return out
}

// At is the plan of decisions that started at an instant (Unix nanoseconds); nil
// where it can not be drawn by, for want of its salt.
func (h *History) At(start int64) *Plan {
	i := len(h.entries) - 1
	for i > 0 && h.entries[i].Since > start {
		i--
	}
	return h.plans[i]
}

// Last is the newest entry, and its plan (nil likewise). It may still be to come.
func (h *History) Last() (Entry, *Plan) {
	n := len(h.entries) - 1
	return h.entries[n], h.plans[n]
}

// Append adds a plan for decisions from since on, which must be later than that of
// the last.
func (h *History) Append(since int64, p *Plan, base, why string) error {
	last := h.entries[len(h.entries)-1]
	if since <= last.Since || p.ID() == last.ID {
		return fmt.Errorf("sampling plan %s from %d on does not follow %s from %d on", p.ID(), since, last.ID, last.Since)
	}
	h.entries = append(h.entries, Entry{Since: since, ID: p.ID(), Base: base, Why: why, Params: p.Params()})
	h.plans = append(h.plans, p)
	return nil
}

// Settle takes up the plan of the settings: nothing changes where the newest entry
// is that plan or was adapted from it; else it follows, for decisions from since
// on. It tells whether it did.
func (h *History) Settle(since int64, p *Plan) (bool, error) {
	last, held := h.Last()
	if last.Base == p.ID() && held != nil {
		return false, nil
	}
	return true, h.Append(max(since, last.Since+1), p, p.ID(), "settings")
}

// Differs tells whether a rate of the other plan is off by more than a share of
// this one's, so that changing is worth a version.
func (p *Plan) Differs(other *Plan, share float64) bool {
	off := func(a, b float64) bool { return math.Abs(a-b) > share*math.Min(a, b) }
	for _, q := range [2]*Plan{p, other} {
		for name := range q.params.Rates {
			if off(p.rateOf(name), other.rateOf(name)) {
				return true
			}
		}
	}
	return off(p.rateOf(""), other.rateOf(""))
}
