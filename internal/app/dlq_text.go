package app

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/kvwhatif/kvwhatif/schema"
)

// reasonWidth is how much of a reason a table shows.
const reasonWidth = 70

// Text is the list as tables: the letters, then counts by reason.
func (x *LetterList) Text() string {
	var b strings.Builder
	if x.Total == 0 {
		b.WriteString("no dead letters\n")
	} else {
		fmt.Fprintf(&b, "%s\n\n%s\n", x.lettersTable(), x.countsTable())
	}
	if n := x.Total - len(x.Letters); n > 0 {
		fmt.Fprintf(&b, "%d more: raise --limit (0 for all)\n", n)
	}
	if x.Unreadable > 0 {
		fmt.Fprintf(&b, "%d messages of %s are no dead letters of this version: update kvwhatif, or find out who else writes to the topic\n", x.Unreadable, schema.TopicDead)
	}
	return b.String()
}

func (x *LetterList) lettersTable() string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"id", "refused (UTC)", "state", "code", "adapter", "from", "retries", "copies", "reason"})
	for _, l := range x.Letters {
		from := "door"
		if l.From != nil {
			from = fmt.Sprintf("%d@%d", l.From.Partition, l.From.Offset)
		}
		t.AppendRow(table.Row{l.ID, l.At.Format("2006-01-02 15:04:05"), l.State, l.Code, l.Adapter, from, l.Attempts, l.Copies,
			text.Trim(strings.Join(strings.Fields(l.Reason), " "), reasonWidth)})
	}
	return t.Render()
}

func (x *LetterList) countsTable() string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"letters", "source", "code", "state"})
	for _, c := range x.Counts {
		t.AppendRow(table.Row{c.N, c.Source, c.Code, c.State})
	}
	return t.Render()
}
