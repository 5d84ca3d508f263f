package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Type is what a panel asks.
type Type string

// The types of questions. Their answers are described by Statement.Fields.
const (
	TypeVerdict     Type = "verdict"     // the last verdict on each link
	TypeBenefit     Type = "benefit"     // mean benefit by a dimension, predicted and measured, with intervals
	TypeStages      Type = "stages"      // where the mean TTFT went
	TypeLinks       Type = "links"       // what crossed each link, and how full it is
	TypeCoverage    Type = "coverage"    // how much of the traffic the answers rest on
	TypeCalibration Type = "calibration" // the coefficients that were published, and how they hold
	TypeDecisions   Type = "decisions"   // single decisions
	TypeRequest     Type = "request"     // one request: its stages, its candidates, its replays
	TypeSQL         Type = "sql"         // a SELECT of the user's own
	TypeVariable    Type = "variable"    // the values of a dashboard variable
	TypeAnnotation  Type = "annotation"  // events
)

// Types are all of them.
var Types = []Type{TypeVerdict, TypeBenefit, TypeStages, TypeLinks, TypeCoverage, TypeCalibration, TypeDecisions, TypeRequest, TypeSQL, TypeVariable, TypeAnnotation}

// Views of a question: the first of a type is its default.
var views = map[Type][]string{
	TypeVerdict:     {"table"},
	TypeBenefit:     {"table", "series"},
	TypeStages:      {"table", "series"},
	TypeLinks:       {"table", "series"},
	TypeCoverage:    {"table", "series", "legs"},
	TypeCalibration: {"document", "terms", "history", "series", "coordinators"},
	TypeDecisions:   {"worst", "all"},
	TypeRequest:     {"stages", "facts"},
	TypeSQL:         {"table", "series"},
	TypeVariable:    {"table"},
	TypeAnnotation:  {"all", "publications", "rollbacks", "drift", "refusals"},
}

// Dimensions by which benefits and stages are broken down; "" is not at all.
var byColumns = map[string]string{
	"": "'all'", "path": "toString(path)", "tier": "toString(tier)", "link": "link",
	"size": "toString(size_bucket)", "policy": "policy", "model": "model",
}

// Variables whose values can be asked for, each a column of slices.
var variables = []string{"policy", "model", "path", "tier", "link", "size"}

// Limits of rows.
const (
	DefaultLimit = 100   // of decisions
	MaxLimit     = 10000 // of decisions
)

// None is the value of a filter for "not said", and what such a value is shown as.
const None = "(none)"

// all are the values of a variable of Grafana that stand for all.
var all = []string{"*", "$__all", "All"}

// Question is what one query of a panel says, as it is saved in a dashboard.
// The zero value of a field is its default.
type Question struct {
	Type    Type   `json:"queryType"`
	View    string `json:"view,omitempty"`    // which answer of the type; "": the first
	By      string `json:"by,omitempty"`      // dimension: path, tier, link, size, policy, model; "": all together
	Source  string `json:"source,omitempty"`  // of a series of benefits: "predicted" (default) or "measured"
	Filter  Filter `json:"filter,omitzero"`   //
	Limit   int    `json:"limit,omitempty"`   // of decisions; 0: DefaultLimit
	Request string `json:"request,omitempty"` // a row id or trace id of 32 hex digits, or a request id
	SQL     string `json:"sql,omitempty"`     // of TypeSQL
	Of      string `json:"of,omitempty"`      // of TypeVariable: whose values
}

// Filter limits an answer to some values of a column; an empty list, or one that
// holds "*", to none. None stands for the empty value.
type Filter struct {
	Policy List `json:"policy,omitempty"`
	Model  List `json:"model,omitempty"`
	Path   List `json:"path,omitempty"`
	Tier   List `json:"tier,omitempty"`
	Link   List `json:"link,omitempty"`
	Size   List `json:"size,omitempty"` // number of a size bucket, from -1
}

// List is a list of values; in JSON one string is a list of one.
type List []string

// UnmarshalJSON reads a list, a single string, or null.
func (l *List) UnmarshalJSON(b []byte) error {
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		*l = nil
		if one != "" {
			*l = List{one}
		}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return errors.New("a filter is a list of strings, or one string")
	}
	*l = many
	return nil
}

// Parse reads a question as a dashboard holds it, and checks it. Fields that are
// not known, such as those of Grafana itself, are passed over.
func Parse(b []byte) (Question, error) {
	var q Question
	if err := json.Unmarshal(b, &q); err != nil {
		return Question{}, fmt.Errorf("the query cannot be read: %w", err)
	}
	if q.View == "" && len(views[q.Type]) > 0 {
		q.View = views[q.Type][0]
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	return q, q.Validate()
}

// Validate says what is wrong with a question, and what may stand there.
func (q Question) Validate() error {
	if !slices.Contains(Types, q.Type) {
		return fmt.Errorf("query type %q is not known: choose one of %s", q.Type, joined(Types))
	}
	if !slices.Contains(views[q.Type], q.View) {
		return fmt.Errorf("view %q of query type %s is not known: choose one of %s", q.View, q.Type, joined(views[q.Type]))
	}
	if _, ok := byColumns[q.By]; !ok {
		return fmt.Errorf("%q is nothing to break down by: choose path, tier, link, size, policy, model or nothing", q.By)
	}
	if q.Source != "" && q.Source != "predicted" && q.Source != "measured" {
		return fmt.Errorf("source %q is not known: choose predicted or measured", q.Source)
	}
	if q.Limit < 1 || q.Limit > MaxLimit {
		return fmt.Errorf("limit %d is out of range: choose 1 to %d", q.Limit, MaxLimit)
	}
	return q.validateOwn()
}

// validateOwn checks what one type alone needs.
func (q Question) validateOwn() error {
	switch {
	case q.Type == TypeSQL && strings.TrimSpace(q.SQL) == "":
		return errors.New("the SQL is empty: write a SELECT, such as SELECT minute AS time, sum(n) FROM slices WHERE $__timeFilter(minute) GROUP BY time ORDER BY time")
	case q.Type == TypeRequest && strings.TrimSpace(q.Request) == "":
		return errors.New("no request is named: give its request id, or the 32 hex digits of its row id or trace id")
	case q.Type == TypeVariable && !slices.Contains(variables, q.Of):
		return fmt.Errorf("%q has no values to choose from: choose one of %s", q.Of, joined(variables))
	}
	return nil
}

func joined[T ~string](all []T) string {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}

// Scope is what a question is asked of, as expressions of SQL. A datasource with
// macros of its own puts those there.
type Scope struct {
	From, Until string            // instants, DateTime or DateTime64
	Step        string            // seconds of one point of a series
	Only        map[string]string // column of slices → list of values; none: all
}

// ScopeOf is the scope of a question between two instants, as literals. Series
// have a point a step, which is at least the minute that rollups have.
func (q Question) ScopeOf(from, until time.Time, step time.Duration) Scope {
	s := Scope{From: instant(from), Until: instant(until), Only: map[string]string{}}
	s.Step = fmt.Sprintf("%d", int64(max(step, time.Minute).Round(time.Minute)/time.Second))
	for column, values := range map[string]List{
		"policy": q.Filter.Policy, "model": q.Filter.Model, "path": q.Filter.Path,
		"tier": q.Filter.Tier, "link": q.Filter.Link, "size": q.Filter.Size,
	} {
		if list := literals(values); list != "" {
			s.Only[column] = list
		}
	}
	return s
}

func literals(values List) string {
	var b strings.Builder
	for i, v := range values {
		if slices.Contains(all, v) {
			return ""
		}
		if v == None {
			v = ""
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Quote(v))
	}
	return b.String()
}

// Quote is a string literal of ClickHouse, whatever the string holds.
func Quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\x00", `\0`).Replace(s) + "'"
}

func instant(t time.Time) string {
	return "toDateTime64('" + t.UTC().Format("2006-01-02 15:04:05.000000000") + "', 9, 'UTC')"
}

// hexID is a row id or a trace id as it is shown.
var hexID = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)

// minutes limits a column that is the start of a minute or block to those that
// the range touches.
func (s Scope) minutes(column string) string {
	return column + " >= toStartOfMinute(" + s.From + ") AND " + column + " < " + s.Until
}

// instants limits a column that is an instant.
func (s Scope) instants(column string) string {
	return column + " >= " + s.From + " AND " + column + " < " + s.Until
}

// only are the conditions on the columns named, each preceded by AND. columns
// gives the expression of a column that has another name than in slices.
func (s Scope) only(columns map[string]string) string {
	var b strings.Builder
	for _, c := range variables {
		expr, there := columns[c]
		if list := s.Only[c]; list != "" && there {
			b.WriteString(" AND " + expr + " IN (" + list + ")")
		}
	}
	return b.String()
}

// Columns by which tables can be filtered.
var (
	sliceColumns   = map[string]string{"policy": "policy", "model": "model", "path": "toString(path)", "tier": "toString(tier)", "link": "link", "size": "toString(size_bucket)"}
	requestColumns = map[string]string{"policy": "policy", "model": "model", "path": "toString(path)", "tier": "toString(tier)", "link": "link", "size": "toString(" + sizeBucket + ")"}
	worstColumns   = requestColumns
	estimateColumn = map[string]string{"policy": "policy", "model": "model", "path": "toString(pair_from)", "tier": "tier", "link": "link", "size": "toString(size_bucket)"}
	linkColumns    = map[string]string{"tier": "toString(tier)", "link": "link"}
)

// slices are the rows of the rollup that count, as a source.
func (s Scope) slices() string { return s.rollup("slices") + s.only(sliceColumns) }

// rollup is a rollup with the filter on gen that every reader needs, up to its
// WHERE. It is written out, and no view: datasources put macros into it.
func (s Scope) rollup(table string) string {
	in := s.minutes("minute")
	return table + " FINAL WHERE " + in + " AND (shard, minute, gen) GLOBAL IN (SELECT shard, minute, max(gen) FROM " + table + " WHERE " + in + " GROUP BY shard, minute)"
}
