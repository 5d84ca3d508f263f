package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// Table is the figures of one question.
type Table struct {
	ID      string   `json:"id"` // as in the list of targets: P1 to P9, or G1 to G4 for how cost grows
	Title   string   `json:"title"`
	First   string   `json:"first"`   // head of the names of rows
	Columns []string `json:"columns"` // heads of Row.Values, with units
	Rows    []Row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"` // how it was measured, and what bounds it

	Measured string `json:"measured"` // when, of which commit, how busy the machine was, by which command
}

// Row is one line. Its ratio is read last: to a peer, a bound or a target.
type Row struct {
	Name   string   `json:"name"`
	Values []Number `json:"values"`
	Ratio  Number   `json:"ratio"`
	To     string   `json:"to,omitempty"` // what the ratio is to
}

// Number is a figure, NaN where there is none.
type Number float64

// none is no figure.
var none = Number(math.NaN())

// MarshalJSON writes null for none.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON is the inverse.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = none
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// String writes three digits that count, and all of those before the point.
func (n Number) String() string {
	v := float64(n)
	switch size := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case size >= 100:
		return humanize.Comma(int64(math.Round(v)))
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	case size == 0:
		return "0"
	case size < 0.01:
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// ratio is the last cell of a row.
func (r Row) ratio() string {
	if math.IsNaN(float64(r.Ratio)) || math.IsInf(float64(r.Ratio), 0) {
		return "–"
	}
	return r.Ratio.String() + "× " + r.To
}

// cells are the table with its heads.
func (t *Table) cells() [][]string {
	out := [][]string{append(append([]string{t.First}, t.Columns...), "ratio")}
	for _, r := range t.Rows {
		line := []string{r.Name}
		for _, v := range r.Values {
			line = append(line, v.String())
		}
		out = append(out, append(line, r.ratio()))
	}
	return out
}

// Text writes the table for a terminal.
func (t *Table) Text(w io.Writer) {
	fmt.Fprintf(w, "\n%s  %s\n", t.ID, t.Title)
	cells := t.cells()
	width := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, c := range line {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for _, line := range cells {
		for i, c := range line {
			gap := strings.Repeat(" ", width[i]-len([]rune(c)))
			if i > 0 && i < len(line)-1 {
				c = gap + c
			} else {
				c += gap
			}
			fmt.Fprint(w, "  ", c)
		}
		fmt.Fprintln(w)
	}
	for _, n := range t.Notes {
		fmt.Fprintln(w, "  ·", n)
	}
}

// Markdown writes the table for a page.
func (t *Table) Markdown(w io.Writer) {
	fmt.Fprintf(w, "\n## %s: %s\n\n", t.ID, t.Title)
	for i, line := range t.cells() {
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|---|\n", strings.Repeat("|--:", len(line)-2))
		}
	}
	fmt.Fprintln(w)
	for _, n := range append(slices.Clone(t.Notes), t.Measured) {
		fmt.Fprintln(w, "- "+n)
	}
}

// median of some figures, none of nothing.
func median(of []float64) Number {
	if len(of) == 0 {
		return none
	}
	s := slices.Sorted(slices.Values(of))
	return Number((s[(len(s)-1)/2] + s[len(s)/2]) / 2)
}
