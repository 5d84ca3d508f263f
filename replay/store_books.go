package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/sample"
)

// Books are what a restart must not begin anew: what was earned and spent, and what
// was meant to run against what did.
type Books struct {
	Ledger  budget.State   `json:"ledger"`
	Tallies []budget.Tally `json:"tallies,omitempty"` // by cell
}

// booksID stands where other lines have a leg's id.
const booksID = "books"

// merge puts later entries in the place of earlier ones.
func (b *Books) merge(later *Books) {
	b.Ledger.Merge(later.Ledger)
	var c budget.Completion
	c.Set(b.Tallies)
	c.Set(later.Tallies)
	b.Tallies = c.Tallies()
}

// PlansFile is where a store keeps its history of sampling plans, without the
// salt, as a JSON array of sample.Entry.
const PlansFile = "plans.json"

// ReadPlans reads a history of sampling plans. Others may read it at any time: it
// is replaced at once.
func ReadPlans(path string) ([]sample.Entry, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the sampling plans: %w", err)
	}
	var out []sample.Entry
	if err := json.Unmarshal(raw, &out); err != nil || len(out) == 0 {
		return nil, fmt.Errorf("the sampling plans in %s can not be read (%v): restore the file, or move it away, and older draws can not be repeated", path, err)
	}
	return out, nil
}

// keepPlans makes the history durable before anything is drawn by it.
func (s *Store) keepPlans(entries []sample.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans = entries
	if s.path == "" {
		return nil
	}
	raw, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the sampling plans: %w", err)
	}
	dir := filepath.Dir(s.path)
	f, err := os.CreateTemp(dir, PlansFile+".*")
	if err != nil {
		return fmt.Errorf("keep the sampling plans: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = errors.Join(os.Rename(f.Name(), filepath.Join(dir, PlansFile)), syncDir(dir))
	}
	if err != nil {
		return fmt.Errorf("keep the sampling plans: %w", err)
	}
	return nil
}

// kept gives what an earlier process left.
func (s *Store) kept() (Books, []sample.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books, slices.Clone(s.plans)
}

// Outcomes counts the legs that the store remembers by what became of them: why
// they did not run, "emitted", or "under way".
func (s *Store) Outcomes() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, e := range s.legs {
		switch {
		case !e.done:
			out["under way"]++
		case e.why == "":
			out["emitted"]++
		default:
			out[e.why]++
		}
	}
	return out
}
