package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// Answer is what a window says: verdicts with what they rest on.
type Answer struct {
	data    report.Data
	regrets []Regretted // by scope, the whole first; none where it was not asked for
}

// Text is the answer for a terminal.
func (a *Answer) Text() string {
	m := &a.data.Measured
	var b strings.Builder
	b.WriteString(report.Text(a.data))
	if len(a.regrets) > 0 { // those of its parts are in the JSON
		b.WriteString(a.regrets[0].text())
	}
	fmt.Fprintf(&b, "Window: %s to %s\n", m.From.UTC().Format(time.RFC3339), m.Until.UTC().Format(time.RFC3339))
	for _, note := range m.Notes {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	return b.String()
}

// MarshalJSON gives everything; what is not known is null.
func (a *Answer) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		report.Data
		Regrets []Regretted `json:"regrets,omitempty"`
	}{a.data, a.regrets})
}

// Render writes the answer as one HTML page that asks nothing of any server.
func (a *Answer) Render(w io.Writer) error {
	if err := report.Render(w, a.data); err != nil {
		return fmt.Errorf("draw the report: %w", err)
	}
	return nil
}

// Span is a range of time. A zero Until is now; a zero From is Since before it.
type Span struct {
	From, Until time.Time
	Since       time.Duration
}

// at gives the range as of now, which ends settle earlier where Until is zero.
func (s Span) at(now time.Time, settle time.Duration) (from, until time.Time, err error) {
	from, until = s.From, s.Until
	if from.IsZero() {
		from = now.Add(-s.Since)
		if !until.IsZero() {
			from = until.Add(-s.Since)
		}
	}
	if until.IsZero() {
		until = now.Add(-settle)
	}
	if !from.Before(until) {
		return from, until, fmt.Errorf("the window from %s to %s is empty: give a longer --since, or --from before --until (requests younger than %v are left out, for their replays may still run)",
			from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), settle)
	}
	return from, until, nil
}

// Report reads everything of a range that the tables hold. command says what made
// it, for people.
func Report(ctx context.Context, s *Settings, span Span, command string) (*Answer, error) {
	began := time.Now()
	from, until, err := span.at(began, 0)
	if err != nil {
		return nil, err
	}
	conn, _, err := openTables(ctx, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	data, err := query.Data(ctx, conn, query.Window{From: from, Until: until})
	if err != nil {
		return nil, err
	}
	m := &data.Measured
	m.Version, m.Command, m.Generated, m.Wall = Version, command, time.Now().UTC(), time.Since(began).Seconds()
	return &Answer{data: data}, nil
}
