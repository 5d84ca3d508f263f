package replay

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/schema"
)

// completeness is the tallies by size and leg, for people.
func completeness(tallies []budget.Tally) []Completeness {
	out := make([]Completeness, 0, len(tallies))
	for _, t := range tallies {
		size := "unknown"
		if t.Size >= 0 {
			size = schema.SizeBucketName(t.Size)
		}
		out = append(out, Completeness{
			Size: size, Leg: t.Leg, Intended: t.Intended, Executed: t.Executed, Share: t.Completed(), Enough: t.Completed() >= Floor,
		})
	}
	return out
}

// StoredStatus is what the directory of a store and a kill file tell while no
// replayer answers. It takes no lock, and may be a moment old.
func StoredStatus(dir, killFile string) (Status, error) {
	out := Status{Killed: killedBy(killFile)}
	data, err := os.ReadFile(filepath.Join(dir, storeFile))
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	s := NewMemoryStore()
	if err := s.replay(data); err != nil {
		return out, err
	}
	plans, err := ReadPlans(filepath.Join(dir, PlansFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return out, err
	}
	if out.Plans = len(plans); out.Plans > 0 {
		out.Plan = plans[out.Plans-1].ID
	}
	pending, unsent := s.pending()
	out.Waiting, out.Dropped = len(pending), map[string]int64{}
	out.Executed = int64(len(unsent))
	for why, n := range s.Outcomes() {
		out.Drawn += int64(n)
		switch why {
		case "under way":
		case "emitted":
			out.Emitted += int64(n)
			out.Executed += int64(n)
		default:
			out.Dropped[why] = int64(n)
		}
	}
	var c budget.Completion
	c.Set(s.books.Tallies)
	l := s.books.Ledger
	out.BySize = completeness(c.BySize())
	out.GPUSeconds, out.Bytes = spending(l.Production.GPUSeconds, l.Legs.GPUSeconds), spending(l.Production.Bytes, l.Legs.Bytes)
	return out, nil
}
