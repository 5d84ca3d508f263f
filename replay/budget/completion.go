package budget

import "sort"

// Cell is what completeness is counted by.
type Cell struct {
	Stratum string `json:"stratum,omitempty"`
	Size    int    `json:"size"`           // schema.SizeBucket of the prefix
	Leg     string `json:"leg"`            // "rejected" or "control"
	Path    string `json:"path,omitempty"` // that the leg runs
}

// Tally is what was meant to run and what did.
type Tally struct {
	Cell
	Intended int `json:"intended"`
	Executed int `json:"executed"`
}

// Completed is q̂, the share that was executed; 0 where nothing was intended.
func (t Tally) Completed() float64 {
	if t.Intended == 0 {
		return 0
	}
	return float64(t.Executed) / float64(t.Intended)
}

// Completion counts legs by cell. Its zero value is ready.
type Completion struct {
	cells   map[Cell]*Tally
	changed map[Cell]bool // since Changed was last asked
}

// Intend counts a leg that was drawn.
func (c *Completion) Intend(cell Cell) { c.at(cell).Intended++ }

// Execute counts a leg that gave a result.
func (c *Completion) Execute(cell Cell) { c.at(cell).Executed++ }

// Changed gives the tallies that changed since it was last asked.
func (c *Completion) Changed() (out []Tally) {
	for cell := range c.changed {
		out = append(out, *c.cells[cell])
	}
	clear(c.changed)
	return out
}

// Set puts tallies in the place of those of their cells.
func (c *Completion) Set(tallies []Tally) {
	for _, t := range tallies {
		*c.at(t.Cell) = t
	}
	clear(c.changed)
}

func (c *Completion) at(cell Cell) *Tally {
	if c.cells == nil {
		c.cells, c.changed = map[Cell]*Tally{}, map[Cell]bool{}
	}
	c.changed[cell] = true
	t, ok := c.cells[cell]
	if !ok {
		t = &Tally{Cell: cell}
		c.cells[cell] = t
	}
	return t
}

// Tallies gives every cell, ordered by stratum, leg and path.
func (c *Completion) Tallies() []Tally {
	out := make([]Tally, 0, len(c.cells))
	for _, t := range c.cells {
		out = append(out, *t)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].Cell, out[j].Cell
		if a.Stratum != b.Stratum {
			return a.Stratum < b.Stratum
		}
		if a.Leg != b.Leg {
			return a.Leg < b.Leg
		}
		if a.Path != b.Path {
			return a.Path < b.Path
		}
		return a.Size < b.Size
	})
	return out
}

// BySize sums the tallies over everything but the size bucket and the leg, in
// the order of the buckets.
func (c *Completion) BySize() []Tally {
	var sum Completion
	for cell, t := range c.cells {
		at := sum.at(Cell{Size: cell.Size, Leg: cell.Leg})
		at.Intended += t.Intended
		at.Executed += t.Executed
	}
	out := sum.Tallies()
	sort.SliceStable(out, func(i, j int) bool { return out[i].Size < out[j].Size })
	return out
}
