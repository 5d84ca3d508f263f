package grafana

import (
	"strings"
)

// flavour is a datasource that the dashboards are rendered for.
type flavour struct {
	name    string // directory below json
	plugin  string // type of the datasource
	label   string // for people
	all     string // value of a variable that stands for all
	macros  *strings.Replacer
	target  func(id, sql string, kind Kind, older bool) map[string]any
	options func(of string, older bool) any // query of a variable
}

// Both datasources have Grafana Labs' names of these macros.
var macros = strings.NewReplacer(from, "$__fromTime", until, "$__toTime", step, "$__interval_s")

// flavours are kvwhatif's own plugin, and Grafana Labs' for those who may not
// install another.
var flavours = []flavour{
	{name: "kvwhatif", plugin: PluginID, label: "kvwhatif", all: "'*'", macros: macros, target: ownTarget, options: ownOptions},
	{name: "clickhouse", plugin: "grafana-clickhouse-datasource", label: "ClickHouse", all: "'*'", macros: macros, target: officialTarget, options: officialOptions},
}

// PluginID is the id of kvwhatif's own datasource plugin.
const PluginID = "kvwhatif-datasource"

// ownTarget is a query of kvwhatif's plugin, of type sql.
func ownTarget(id, sql string, kind Kind, _ bool) map[string]any {
	view := "table"
	if kind == Lines || kind == Area {
		view = "series"
	}
	return map[string]any{"refId": id, "queryType": "sql", "view": view, "sql": sql}
}

func ownOptions(of string, _ bool) any {
	return map[string]any{"refId": "Variable", "queryType": "sql", "view": "table", "sql": macros.Replace(values(of))}
}

// officialTarget is a query of the ClickHouse plugin: format 0 is a series and 1 a
// table in all of its versions, queryType says so since 4.0.
func officialTarget(id, sql string, kind Kind, older bool) map[string]any {
	format, query := 1, "table"
	if kind == Lines || kind == Area {
		format, query = 0, "timeseries"
	}
	if older {
		query = "sql"
	}
	return map[string]any{"refId": id, "editorType": "sql", "queryType": query, "format": format, "rawSql": sql}
}

func officialOptions(of string, _ bool) any { return macros.Replace(values(of)) }

// values are the values that a variable can take in the range.
func values(of string) string {
	column := of
	if of == "path" {
		column = "toString(path)"
	}
	return "SELECT DISTINCT " + named(column) + " AS value FROM slices WHERE " + minutes("minute") + " ORDER BY value"
}

// annotation is a kind of event.
type annotation struct{ name, color, sql string }

// annotations are marked on every series.
var annotations = []annotation{
	{"Publications", "blue", "SELECT toDateTime(created) AS time, concat('published revision ', toString(revision), if(note = '', '', concat(': ', note))) AS text, 'published' AS tags FROM coefficients FINAL WHERE " +
		instants("created") + " AND note NOT IN ('prices', 'the champion was kept') AND NOT startsWith(note, 'rollback') ORDER BY time"},
	{"Rollbacks", "orange", "SELECT toDateTime(created) AS time, concat('rolled back, as revision ', toString(revision), ': ', note) AS text, 'rollback' AS tags FROM coefficients FINAL WHERE " +
		instants("created") + " AND startsWith(note, 'rollback') ORDER BY time"},
	{"Drift", "red", "SELECT time, text, 'drift' AS tags FROM (SELECT m AS time, concat('predictions lean by ', toString(round(100 * e / t)), ' % of TTFT') AS text, abs(e / t) AS lean, k FROM (SELECT toStartOfInterval(minute, INTERVAL 15 MINUTE) AS m, sum(sum_error) AS e, sum(sum_ttft) AS t, sum(n_predicted) AS k FROM " +
		rollup("slices") + " AND n_predicted > 0 GROUP BY m)) WHERE k >= 100 AND lean > 0.2 ORDER BY time"},
}
