package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// Text is the evaluation for a terminal.
func (e *Evaluation) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Policy %s (%s) on %s, %d requests\n", e.Policy, e.Kind, e.Scope, e.Requests)
	if m := e.method(e.By); e.By == "" {
		fmt.Fprintf(&b, "UNKNOWN: %s\n", e.Why)
	} else {
		fmt.Fprintf(&b, "%s by %s: TTFT %s, against %s as decided\n", strings.ToUpper(e.State), e.By, changeText(m), meanText(m.Logged))
		fmt.Fprintf(&b, "Answered by %s: %s\n", e.By, e.Why)
	}
	b.WriteString("\nBy each method:\n")
	for i := range e.Methods {
		b.WriteString(e.Methods[i].text())
	}
	b.WriteString("\nLoads:\n")
	for _, l := range e.Feedback.Links {
		fmt.Fprintf(&b, "  link %-12s %.4g → %.4g MB/s", l.Link, l.Logged/1e6, l.Policy/1e6)
		if l.Capacity.Known() {
			fmt.Fprintf(&b, " of %.4g", l.Capacity.V/1e6)
		}
		fmt.Fprintf(&b, ", load %+.1f %%\n", 100*l.Change)
	}
	fmt.Fprintf(&b, "  GPUs              load %+.1f %%; limit for others not to notice %.1f %%\n", 100*e.Feedback.GPUChange, 100*e.Feedback.Limit)
	e.slicesText(&b)
	if e.Undecided > 0 {
		fmt.Fprintf(&b, "\n%d requests are unknown: what the policy decides by was not logged\n", e.Undecided)
	}
	fmt.Fprintf(&b, "\nWindow: %s to %s\n", e.From.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
	for _, n := range e.Notes {
		fmt.Fprintf(&b, "Note: %s\n", n)
	}
	return b.String()
}

func (e *Evaluation) slicesText(b *strings.Builder) {
	if len(e.Slices) == 0 {
		return
	}
	b.WriteString("\nBy slice, by replays (one request at a time; intervals hold together):\n")
	for i := range e.Slices {
		s := &e.Slices[i]
		name := s.Value
		if name == "" {
			name = "(none)"
		}
		if !s.Known {
			why, _, _ := strings.Cut(s.Why, ";") // the rest is in the JSON
			fmt.Fprintf(b, "  %-6s %-14s unknown, %d requests: %s\n", s.By, name, s.N+s.Unknown, why)
			continue
		}
		fmt.Fprintf(b, "  %-6s %-14s %s, %d requests, %d moved, %d replays\n", s.By, name, changeText(&s.EvaluatedBy), s.N, s.Moved, s.Replays)
	}
}

// text is one method's lines.
func (m *EvaluatedBy) text() string {
	var b strings.Builder
	if !m.Known {
		fmt.Fprintf(&b, "  %-12s unknown: %s\n", m.Method, m.Why)
		return b.String()
	}
	fmt.Fprintf(&b, "  %-12s %s: %s, of %s\n", m.Method, m.State, changeText(m), meanText(m.Value))
	fmt.Fprintf(&b, "  %-12s %d requests", "", m.N)
	for _, c := range []struct {
		n    int
		what string
	}{{m.Unknown, "unknown"}, {m.Moved, "decided otherwise"}, {m.Replays, "replays"}, {m.Matches, "agree with the policy"}, {m.Runs, "runs of each"}, {m.Blocks, "blocks of time"}} {
		if c.n > 0 {
			fmt.Fprintf(&b, ", %d %s", c.n, c.what)
		}
	}
	if m.ESS.Known() {
		fmt.Fprintf(&b, ", worth %.0f equal ones, largest weight %.1f %%", m.ESS.V, 100*m.MaxWeight.V)
	}
	b.WriteString("\n")
	if m.Method == MethodReplays && m.Next.Low.Known() {
		fmt.Fprintf(&b, "  %-12s of requests to come: %s to %s\n", "", signed(m.Next.Low), signed(m.Next.High))
	}
	if m.IPW != nil {
		fmt.Fprintf(&b, "  %-12s IPW %s, SNIPW %s\n", "", meanText(*m.IPW), meanText(*m.SNIPW))
	}
	if m.LinkLogged.Known() {
		fmt.Fprintf(&b, "  %-12s link load %.2f → %.2f, GPU load %.2f → %.2f\n", "", m.LinkLogged.V, m.LinkPolicy.V, m.GPULogged.V, m.GPUPolicy.V)
	}
	for _, a := range m.Assumptions {
		fmt.Fprintf(&b, "  %-12s - %s\n", "", a)
	}
	return b.String()
}

func ms(n report.Number) string {
	if !n.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%.1f ms", 1e3*n.V)
}

func signed(n report.Number) string {
	if !n.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%+.1f ms", 1e3*n.V)
}

// changeText is the change with its interval.
func changeText(m *EvaluatedBy) string {
	return fmt.Sprintf("%s (%s to %s)", signed(m.Change.Value), signed(m.Change.Low), signed(m.Change.High))
}

// meanText is a mean with its interval, without it where it has no width.
func meanText(b Bounded) string {
	if b.Low == b.High {
		return ms(b.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", ms(b.Value), ms(b.Low), ms(b.High))
}
