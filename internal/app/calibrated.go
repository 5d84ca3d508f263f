package app

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// Err is nil where the run published, or would have if it had been meant to, and
// an ErrNotPublished with the reason otherwise.
func (c *Calibrated) Err() error {
	if c.Published || (c.DryRun && c.Gate.Publish) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotPublished, c.Reason)
}

// outcome says in a sentence what became of the run.
func (c *Calibrated) outcome() string {
	switch {
	case c.Published:
		return fmt.Sprintf("Published revision %d: %s", c.Revision, c.Reason)
	case c.DryRun && c.Gate.Publish:
		return "Would publish: " + c.Reason
	case c.DryRun:
		return "Would not publish: " + c.Reason
	case c.Revision == 0:
		return "Nothing was published, and there is no revision in force: " + c.Reason
	}
	return fmt.Sprintf("Nothing was published, revision %d stays: %s", c.Revision, c.Reason)
}

// Text is the run for a terminal: the terms, the gate's slices, the outcome.
func (c *Calibrated) Text() string {
	var b strings.Builder
	doc := report.OfDocument(c.Document)
	if len(doc.Terms) > 0 {
		fmt.Fprintf(&b, "Fitted to %d requests from %s to %s; judged on %d later ones.\n", c.Requests,
			doc.FitFrom.Format(time.RFC3339), doc.FitUntil.Format(time.RFC3339), c.HeldOut)
		b.WriteString(termTable(doc.Terms) + "\n")
	}
	for _, s := range c.Skipped {
		of := ""
		if s.Key != "" {
			of = " of " + s.Key
		}
		fmt.Fprintf(&b, "Not fitted: %s%s (n = %d): %s\n", s.Term, of, s.N, s.Reason)
	}
	if len(c.Gate.Slices) > 0 {
		b.WriteString("Held-out mean relative error of TTFT, by slice:\n" + c.sliceTable() + "\n")
	}
	b.WriteString(c.driftText() + c.outcome() + "\n")
	return b.String()
}

// newTable is a table as all commands print theirs.
func newTable(header ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row(header))
	return t
}

// termTable lists coefficients, a row each, with one standard error.
func termTable(terms []report.Term) string {
	t := newTable("law", "of", "form", "n", "coefficient", "value ± standard error", "unit", "held-out error", "floor")
	for i := range terms {
		term := &terms[i]
		for k, v := range term.Values {
			if k == 0 {
				t.AppendRow(table.Row{term.Law, term.Of, term.Form, term.N, v.Name, plusMinus(v), v.Unit, percent(term.Error), percent(term.Floor)})
				continue
			}
			t.AppendRow(table.Row{"", "", "", "", v.Name, plusMinus(v), v.Unit, "", ""})
		}
		t.AppendSeparator()
	}
	return t.Render()
}

func plusMinus(v report.Value) string {
	switch {
	case !v.Value.Known():
		return "unknown"
	case !v.StandardError.Known():
		return short(v.Value.V)
	}
	return short(v.Value.V) + " ± " + strconv.FormatFloat(v.StandardError.V, 'g', 2, 64)
}

// short writes four significant digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// percent writes a share; "unknown" where it is missing.
func percent(n report.Number) string {
	if !n.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*n.V)
}

func (c *Calibrated) sliceTable() string {
	t := newTable("slice", "n", "champion", "challenger", "gain (points)", "interval (points)", "outcome")
	for i := range c.Gate.Slices {
		s := &c.Gate.Slices[i]
		gain, interval := "unknown", "none"
		if !math.IsNaN(s.Gain) {
			gain = fmt.Sprintf("%.2f", 100*s.Gain)
		}
		if number(s.Low).OK && number(s.High).OK {
			interval = fmt.Sprintf("%.2f to %.2f", 100*s.Low, 100*s.High)
		}
		t.AppendRow(table.Row{s.Slice.String(), s.N, percent(number(s.ChampionError)), percent(number(s.ChallengerError)), gain, interval, string(s.Outcome)})
	}
	return t.Render()
}

// calibratedJSON is a run for machines. Shares are 0 to 1; what is not known is
// null.
type calibratedJSON struct {
	Published    bool          `json:"published"`
	DryRun       bool          `json:"dry_run"`
	WouldPublish bool          `json:"would_publish"`
	Revision     int64         `json:"revision"` // in force now; 0: none
	Reason       string        `json:"reason"`
	Requests     int64         `json:"fit_requests"`
	HeldOut      int           `json:"held_out_requests"`
	FitFrom      time.Time     `json:"fit_from"`
	FitUntil     time.Time     `json:"fit_until"`
	Terms        []report.Term `json:"terms"`
	Skipped      []skippedJSON `json:"skipped"`
	Slices       []sliceJSON   `json:"slices"`
	Drift        []driftJSON   `json:"drift"` // of the champion; a path and link with too few requests is not in it
}

type skippedJSON struct {
	Law    string `json:"law"`
	Of     string `json:"of"`
	N      int    `json:"n"`
	Reason string `json:"reason"`
}

type sliceJSON struct {
	Slice      string        `json:"slice"`
	N          int           `json:"n"`
	Champion   report.Number `json:"champion_mean_relative_error"`
	Challenger report.Number `json:"challenger_mean_relative_error"`
	Gain       report.Number `json:"gain_mean_relative_error"`
	Low        report.Number `json:"gain_low"`
	High       report.Number `json:"gain_high"`
	Outcome    string        `json:"outcome"`
}

// MarshalJSON is the run for machines.
func (c *Calibrated) MarshalJSON() ([]byte, error) {
	doc := report.OfDocument(c.Document)
	out := calibratedJSON{
		Published: c.Published, DryRun: c.DryRun, WouldPublish: c.Gate.Publish, Revision: c.Revision, Reason: c.Reason,
		Requests: c.Requests, HeldOut: c.HeldOut, FitFrom: doc.FitFrom, FitUntil: doc.FitUntil,
		Terms: append([]report.Term{}, doc.Terms...), Skipped: []skippedJSON{}, Slices: []sliceJSON{}, Drift: c.driftJSON(),
	}
	for _, s := range c.Skipped {
		out.Skipped = append(out.Skipped, skippedJSON{Law: s.Term, Of: s.Key, N: s.N, Reason: s.Reason})
	}
	for i := range c.Gate.Slices {
		s := &c.Gate.Slices[i]
		out.Slices = append(out.Slices, sliceJSON{
			Slice: s.Slice.String(), N: s.N, Champion: number(s.ChampionError), Challenger: number(s.ChallengerError),
			Gain: number(s.Gain), Low: number(s.Low), High: number(s.High), Outcome: string(s.Outcome),
		})
	}
	return json.Marshal(out)
}
