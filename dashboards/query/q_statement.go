package query

import (
	"fmt"
	"strings"
)

// Shape is the form of an answer.
type Shape string

// The shapes, by the names of Grafana's dataplane contract.
const (
	ShapeNumeric Shape = "numeric-long"     // texts say which row, numbers what of it
	ShapeSeries  Shape = "timeseries-multi" // the first column is the time, texts are labels
	ShapeTable   Shape = "table"            // anything else
)

// Step is a colour from a value on. Unknown is never green: a field with steps
// begins with one that is neither green nor red, for values that are not there.
type Step struct {
	From  float64 // -Inf for the first
	Color string
}

// Kind is what the values of a field are.
type Kind string

// The kinds.
const (
	KindText   Kind = "text"
	KindNumber Kind = "number" // Float64, which can be NULL
	KindTime   Kind = "time"
)

// Field is one column of an answer.
type Field struct {
	Name  string
	Kind  Kind
	Title string // for people
	Unit  string // of Grafana: s, percentunit, bytes, Bps, short, ...; "" none
	Text  string // what it means
	Steps []Step
	expr  string
}

// Statement is a question as SQL, and what comes back: one column a field, in
// that order, a string, Float64 (nullable: NULL is unknown), or DateTime64.
type Statement struct {
	SQL    string
	Shape  Shape
	Fields []Field
}

// Build makes the SQL of a question. TypeSQL is not built here: its text is the
// user's.
func Build(q Question, s Scope) (Statement, error) {
	switch q.Type {
	case TypeVerdict:
		return verdictStatement(s), nil
	case TypeBenefit:
		return benefitStatement(q, s), nil
	case TypeStages:
		return stagesStatement(q, s), nil
	case TypeLinks:
		return linksStatement(q, s), nil
	case TypeCoverage:
		return coverageStatement(q, s), nil
	case TypeCalibration:
		return calibrationStatement(q, s), nil
	case TypeDecisions:
		return decisionsStatement(q, s), nil
	case TypeRequest:
		return requestStatement(q), nil
	case TypeVariable:
		return variableStatement(q, s), nil
	case TypeAnnotation:
		return annotationStatement(q, s), nil
	}
	return Statement{}, fmt.Errorf("query type %q has no SQL of its own", q.Type)
}

// statement selects the fields from what follows FROM.
func statement(shape Shape, from string, fields []Field) Statement {
	for i := range fields {
		switch {
		case fields[i].Name == "time":
			fields[i].Kind = KindTime
		case fields[i].Kind == "":
			fields[i].Kind = KindText
		}
	}
	return Statement{SQL: "SELECT " + selectList(fields) + "\nFROM " + from, Shape: shape, Fields: fields}
}

func selectList(fields []Field) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.expr + " AS `" + f.Name + "`"
	}
	return strings.Join(list, ",\n  ")
}

// Makers of fields. Numbers are Float64, or NULL where they are no finite number.

func text(name, title, expr string) Field {
	return Field{Name: name, Title: title, expr: "ifNull(" + expr + ", '')"}
}

// label is a text whose empty value is shown as None.
func label(name, title, expr string) Field {
	return Field{Name: name, Title: title, expr: "if(" + expr + " = '', '" + None + "', " + expr + ")"}
}

func number(name, title, unit, expr string) Field {
	return Field{Name: name, Kind: KindNumber, Title: title, Unit: unit, expr: finite(expr)}
}

func (f Field) means(text string) Field { f.Text = text; return f }

func (f Field) colored(steps ...Step) Field { f.Steps = steps; return f }

// finite is an expression as Float64, NULL where it is NULL, NaN or infinite.
func finite(expr string) string {
	return "if(isFinite(ifNull(toFloat64(" + expr + "), nan)), toFloat64(" + expr + "), NULL)"
}

// ratio is a/b, NULL where b is 0.
func ratio(a, b string) string { return "if(" + b + " > 0, " + a + " / " + b + ", NULL)" }

// at is the time of a point of a series.
func (s Scope) at(column string) Field {
	return Field{Name: "time", Title: "Time", expr: "toDateTime64(toStartOfInterval(" + column + ", toIntervalSecond(" + s.Step + ")), 3, 'UTC')"}
}

// studentT is the two-sided 95 % quantile of Student's t with df degrees of
// freedom, by the expansion of Abramowitz and Stegun 26.7.5 around 1.959964: 0.3 %
// low at 4 degrees, better above.
func studentT(df string) string {
	return "(1.959964 + 2.372271 / (" + df + ") + 2.822500 / pow(" + df + ", 2) + 2.555850 / pow(" + df + ", 3))"
}
