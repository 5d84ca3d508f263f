package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Section is one table with what it was to show.
type Section struct {
	Title  string     `json:"title"`
	Head   []string   `json:"head"`
	Rows   [][]string `json:"rows"`
	Notes  []string   `json:"notes"`
	Checks []Check    `json:"checks"`
}

// Check is one promise: Value lies from Least to Most.
type Check struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// Kept says whether the promise holds; not where the value is not a number.
func (c Check) Kept() bool { return c.Value >= c.Least && c.Value <= c.Most }

// String is the check in words.
func (c Check) String() string {
	return fmt.Sprintf("%s: %.4g, promised %.4g to %.4g", c.What, c.Value, c.Least, c.Most)
}

func (s *Section) row(cells ...string) { s.Rows = append(s.Rows, cells) }

func (s *Section) check(what string, value, least, most float64) {
	s.Checks = append(s.Checks, Check{what, value, least, most})
}

func (s *Section) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n\n", s.Title)
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  "+strings.Join(s.Head, "\t"))
	for _, r := range s.Rows {
		fmt.Fprintln(t, "  "+strings.Join(r, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range s.Notes {
		fmt.Fprintln(w, "  "+n)
	}
	for _, c := range s.Checks {
		kept := "kept"
		if !c.Kept() {
			kept = "NOT KEPT"
		}
		if _, err := fmt.Fprintf(w, "  %s: %s\n", kept, c); err != nil {
			return err
		}
	}
	return nil
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func millis(x float64) string { return fmt.Sprintf("%.1f", 1e3*x) }
