package report

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// textWidth is the width that the text is folded to: that of a terminal nobody
// has resized.
const textWidth = 78

// Text is the verdict for a terminal: a sentence and what to do for each link, then
// one table of what else is known. It holds no colour and no escape sequence, so
// it is the same in a file.
func Text(d Data) string {
	var b strings.Builder
	if len(d.Verdicts) == 0 {
		b.WriteString(fold("", "No verdict: nothing was estimated in this window. A verdict needs requests with a decision, replays of what they did not choose, and a run of the estimator over both."))
	}
	if d.Simulated {
		b.WriteString(fold("", "Simulated: these are not measurements of a real fleet.") + "\n")
	}
	first, moreLinks, others := split(d.Verdicts)
	for _, v := range first {
		b.WriteString(symbols[v.Shown()] + " " + v.Word() + "\n")
		b.WriteString(fold("  ", v.Say()))
		b.WriteString(fold("  ", "To do: "+v.Do()) + "\n")
	}
	b.WriteString(remaining(append(moreLinks, others...)))
	if caveated(d.Verdicts) {
		b.WriteString(fold("", OthersCaveat))
	}
	b.WriteString(fold("", coverageLine(d.Coverage)))
	return b.String()
}

// maxRows is how many verdicts a terminal lists.
const maxRows = 12

// remaining lists what is known of verdicts that are not said in full, and counts
// the others.
func remaining(all []*Verdict) string {
	var known []*Verdict
	for _, v := range all {
		if v.Shown() != Unknown {
			known = append(known, v)
		}
	}
	s, unknown := "", int64(len(all)-len(known))
	if n := len(known); n > 0 {
		s = verdictTable(known[:min(n, maxRows)]) + "\n"
		if n > maxRows {
			s += fold("", plural(int64(n-maxRows), "more comparison")+" "+verb(int64(n-maxRows), "is", "are")+" in the report.")
		}
	}
	if unknown > 0 {
		s += fold("", "? "+plural(unknown, "more comparison")+" "+verb(unknown, "is", "are")+" unknown; the report says why.")
	}
	return s
}

// symbols tell the states apart where there is no colour.
var symbols = map[State]string{Helping: "▲", Hurting: "▼", Even: "=", Unknown: "?"}

func verdictTable(all []*Verdict) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateColumns = false
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"", "Scope", "A request was", "Interval", "Replays"})
	for _, v := range all {
		own, interval := unknownWord, "none"
		if v.Own.Known() {
			own, interval = signed(v.Own.Value), bounds(v.Own)
		}
		t.AppendRow(table.Row{symbols[v.Shown()], clean(v.where() + ": " + v.pair()), breakable(own), breakable(interval), count(v.Replays)})
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 2, WidthMax: 24, WidthMaxEnforcer: text.WrapSoft}, {Number: 4, WidthMax: 22, WidthMaxEnforcer: text.WrapSoft},
		{Number: 5, Align: text.AlignRight, AlignHeader: text.AlignRight},
	})
	return t.Render()
}

func coverageLine(c Coverage) string {
	if c.Requests == 0 {
		return "There was no request in this window."
	}
	return "Of " + plural(c.Requests, "request") + ", " + share(c.WithDecision, c.Requests) + " carry a decision and " +
		share(c.Sampled, c.Requests) + " were drawn for replay."
}

// fold wraps s at textWidth, each line after indent.
func fold(indent, s string) string {
	s = text.WrapSoft(clean(s), textWidth-len(indent))
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = indent + strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// clean makes spaces of control characters, which names from outside could bring
// to a terminal, and of spaces that no line is broken at.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r <= 0xa0) {
			return ' '
		}
		return r
	}, s)
}
