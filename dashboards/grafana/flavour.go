package grafana

import (
	"strings"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
)

// PluginID is the id of kvwhatif's own datasource plugin.
const PluginID = "kvwhatif-reuse-datasource"

// macros are the names that both datasources have for the tokens of a panel's SQL.
var macros = strings.NewReplacer(from, "$__fromTime", until, "$__toTime", step, "$__interval_s")

// all is the value of a variable that stands for all of them. Grafana does not quote
// it, so the quotes are its own.
const all = "'*'"

// flavour is a datasource that the dashboards are rendered for.
type flavour struct {
	name       string // directory below json
	plugin     string // type of the datasource
	target     func(id, sql string, kind Kind, older bool) object
	values     func(of string) any // query of a variable
	annotation func(e event, older bool) (object, error)
}

// flavours are kvwhatif's own plugin, and that of Grafana Labs for those who may not
// install another.
var flavours = []flavour{
	{name: "kvwhatif", plugin: PluginID, target: ownTarget, values: ownValues, annotation: ownAnnotation},
	{name: "clickhouse", plugin: "grafana-clickhouse-datasource", target: officialTarget, values: officialValues, annotation: officialAnnotation},
}

// ownTarget is a query of kvwhatif's plugin, of type sql.
func ownTarget(id, sql string, kind Kind, _ bool) object {
	view := "table"
	if kind == Lines || kind == Area {
		view = "series"
	}
	return object{"refId": id, "queryType": query.TypeSQL, "view": view, "sql": sql}
}

func ownValues(of string) any {
	return object{"refId": "variable", "queryType": query.TypeVariable, "of": of}
}

func ownAnnotation(e event, _ bool) (object, error) {
	return object{"refId": "Anno", "queryType": query.TypeAnnotation, "view": e.view}, nil
}

// officialTarget is a query of the ClickHouse plugin: format 0 is a series and 1 a
// table in all of its versions, queryType says so since 4.0.
func officialTarget(id, sql string, kind Kind, older bool) object {
	format, shape := 1, "table"
	if kind == Lines || kind == Area {
		format, shape = 0, "timeseries"
	}
	if older {
		shape = "sql"
	}
	return object{"refId": id, "editorType": "sql", "queryType": shape, "format": format, "rawSql": sql}
}

// officialValues are those that a variable can take in the range.
func officialValues(of string) any { return macros.Replace(values(of)) }

func values(of string) string {
	column := of
	if of == "path" {
		column = "toString(path)"
	}
	return "SELECT DISTINCT " + named(column) + " AS value FROM slices WHERE " + minutes("minute") + " ORDER BY value"
}

func officialAnnotation(e event, older bool) (object, error) {
	sql, err := e.sql()
	if err != nil {
		return nil, err
	}
	return officialTarget("Anno", macros.Replace(sql), Table, older), nil
}

// event is a kind of annotation, by its view in package query.
type event struct{ name, color, view string }

// events are marked on every series.
var events = []event{
	{"Publications", "blue", "publications"}, {"Rollbacks", "orange", "rollbacks"},
	{"Drift", "red", "drift"}, {"Refusals", "purple", "refusals"},
}

// sql asks for the events of the range, with the tokens of sql.go.
func (e event) sql() (string, error) {
	s, err := query.Build(query.Question{Type: query.TypeAnnotation, View: e.view}, query.Scope{From: from, Until: until, Step: "greatest(60, " + step + ")"})
	return s.SQL, err
}
