package grafana

// Kind is how a panel shows its rows.
type Kind string

// The kinds. Where Grafana 7.5 lacks the panel, render_older.go chooses another.
const (
	Stat  Kind = "stat"  // the numbers of one row
	Lines Kind = "lines" // series over time, from columns time, a label, numbers
	Area  Kind = "area"  // the same, stacked
	Bars  Kind = "bars"  // a bar a number of each row
	Table Kind = "table" // rows
	Text  Kind = "text"  // words for people, no query
	Row   Kind = "row"   // a heading
)

// Step is a colour from a value on.
type Step struct {
	From  float64
	Color string
}

// Column is one column of a panel's answer, in the order of its SQL.
type Column struct {
	Name  string // as in the SQL, and shown
	Type  string // time, text or number
	Unit  string // of Grafana; "" none
	Steps []Step // colours from the values on; below them, and where there is none, neutral
	State bool   // a verdict's number, shown as words: see states
	Opens string // dashboard and variable that a click on a value opens it with: "uid?var-name"
}

// Panel is one panel of a dashboard. ID and place are part of what people link to:
// do not renumber.
type Panel struct {
	ID         uint32
	Kind       Kind
	Title      string
	Text       string // what it means and when to act; of a Text panel, its Markdown
	SQL        string // with the tokens of sql.go
	Columns    []Column
	Empty      string // why there may be no rows, and what to do
	X, Y, W, H uint32
	MayBeEmpty bool // demo data, which is healthy and complete, has no rows for it
}

// Dashboard is one page.
type Dashboard struct {
	UID, Title, Text string
	Variables        []string // columns to filter by, in order
	Request          bool     // has a text box that names a request
	Panels           []Panel
}

// Dashboards are all of them, the one that people begin with first.
func Dashboards() []Dashboard {
	return []Dashboard{overview(), paths(), replays(), calibration(), request()}
}

// Neutral is the colour of what is not known and of what is neither good nor bad.
const Neutral = "#8e8e8e"

// states are the verdicts by number; 0 must stay unknown. No other is green.
var states = []struct{ text, color string }{
	{"UNKNOWN", Neutral}, {"HURTS", "red"}, {"EVEN", "blue"}, {"HELPS", "green"},
}

func text(name string) Column         { return Column{Name: name, Type: "text"} }
func at(name string) Column           { return Column{Name: name, Type: "time"} }
func number(name, unit string) Column { return Column{Name: name, Type: "number", Unit: unit} }

// The pages that values open.
const (
	opensRequest = "kvwhatif-request?var-request"
	opensLink    = "kvwhatif-paths?var-link"
)

func (c Column) opens(page string) Column { c.Opens = page; return c }

func (c Column) steps(s ...Step) Column { c.Steps = s; return c }

// place puts panels in lines of the 24 columns of Grafana's grid, each as wide and
// as high as it says, in the order given.
func place(panels ...Panel) []Panel {
	var x, y, high uint32
	for i := range panels {
		p := &panels[i]
		if x+p.W > 24 {
			x, y, high = 0, y+high, 0
		}
		p.X, p.Y = x, y
		x, high = x+p.W, max(high, p.H)
	}
	return panels
}

func row(id uint32, title, says string) Panel {
	return Panel{ID: id, Kind: Row, Title: title, Text: says, W: 24, H: 1}
}
