package report

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// textWidth is the width that the text is folded to: that of a terminal nobody
// has resized.
const textWidth = 78

// Text is the verdict for a terminal: a sentence and what to do for each scope,
// then one table of the numbers. It holds no colour and no escape sequence, so
// it is the same in a file.
func Text(d Data) string {
	var b strings.Builder
	if len(d.Verdicts) == 0 {
		b.WriteString(fold("", "No verdict: nothing was estimated in this window. A verdict needs requests with a decision, replays of what they did not choose, and a run of the estimator over both."))
	}
	if d.Simulated {
		b.WriteString(fold("", "Simulated: these are not measurements of a real fleet.") + "\n")
	}
	first, more := split(d.Verdicts)
	for i := range first {
		v := &first[i]
		b.WriteString(symbols[v.Shown()] + " " + v.Word() + "\n")
		b.WriteString(fold("  ", v.Say()))
		b.WriteString(fold("  ", "To do: "+v.Do()) + "\n")
	}
	if len(more) > 0 {
		b.WriteString(fold("", "? "+plural(int64(len(more)), "more comparison")+" are unknown; the report says why.") + "\n")
	}
	if len(first) > 0 {
		b.WriteString(verdictTable(first) + "\n")
	}
	b.WriteString(fold("", coverageLine(d.Coverage)))
	return b.String()
}

// symbols tell the states apart where there is no colour.
var symbols = map[State]string{Helping: "▲", Hurting: "▼", Even: "=", Unknown: "?"}

func verdictTable(all []Verdict) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateColumns = false
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"", "Scope", "A request was", "Interval", "Replays"})
	for i := range all {
		v := &all[i]
		own, interval := unknownWord, "none"
		if v.Own.Known() {
			own, interval = signed(v.Own.Value), bounds(v.Own)
		}
		scope := "all links"
		if v.Link != "" {
			scope = "link " + v.Link
		}
		t.AppendRow(table.Row{symbols[v.Shown()], clean(scope + v.rest() + ": " + orUnlabelled(v.Path)), breakable(own), breakable(interval), count(v.Replays)})
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
