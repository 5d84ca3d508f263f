package query

// variableStatement gives the values of a variable in the range: text for people,
// value for queries. A value that was not said is None in both.
func variableStatement(q Question, s Scope) Statement {
	shown := "if(name = '', '" + None + "', name)"
	if q.Of == "size" {
		shown = size("name")
	}
	fields := []Field{
		text("text", "Text", shown),
		text("value", "Value", "if(name = '', '"+None+"', name)"),
	}
	order := "name"
	if q.Of == "size" {
		order = "toInt8OrZero(name)"
	}
	from := "(SELECT DISTINCT " + byColumns[q.Of] + " AS name FROM slices WHERE " + s.minutes("minute") + s.only(sliceColumns) + ")\nORDER BY " + order + " LIMIT 1000"
	return statement(ShapeTable, from, fields)
}

// publication says what kind of publication a row of coefficients is.
const publication = "multiIf(startsWith(note, 'rollback'), 'rollback', note = 'the champion was kept', 'kept', note = 'prices', 'prices', 'publication')"

// driftFrom is the relative bias of predictions from which on it is told.
const driftFrom = "0.1"

// annotationStatement gives events, by view: publications of new laws, rollbacks,
// documents that coordinators refused, and drift: the instants from which on the
// mean of observed TTFT is more than a tenth away from what was predicted.
func annotationStatement(q Question, s Scope) Statement {
	fields := []Field{
		{Name: "time", Title: "Time", expr: "toDateTime64(at, 3, 'UTC')"},
		text("title", "Title", "title"),
		text("text", "Text", "body"),
		text("tags", "Tags", "kind"),
	}
	published := func(kind, title string) string {
		return "SELECT toDateTime64(created, 3, 'UTC') AS at, concat('" + title + " ', toString(revision)) AS title, note AS body, '" + kind + "' AS kind FROM coefficients FINAL WHERE " +
			s.instants("created") + " AND " + publication + " = '" + kind + "'"
	}
	parts := map[string]string{
		"publications": published("publication", "coefficients"),
		"rollbacks":    published("rollback", "rollback: coefficients"),
		"refusals": "SELECT toDateTime64(min(coordinator_status.at), 3, 'UTC') AS at, concat('revision ', toString(revision), ' refused') AS title, concat(toString(uniqExact(instance)), ' coordinators: ', any(reason)) AS body, 'refusal' AS kind " +
			"FROM coordinator_status FINAL WHERE NOT applied AND " + s.instants("coordinator_status.at") + " GROUP BY revision",
		"drift": drift(s),
	}
	from := ""
	for _, view := range []string{"publications", "rollbacks", "refusals", "drift"} {
		if q.View != "all" && q.View != view {
			continue
		}
		if from != "" {
			from += "\n  UNION ALL\n  "
		}
		from += parts[view]
	}
	return statement(ShapeTable, "(\n  "+from+"\n)\nORDER BY at DESC LIMIT 1000", fields)
}

func drift(s Scope) string {
	return `SELECT toDateTime64(ten, 3, 'UTC') AS at, concat('drift', if(link = '', '', concat(' on ', link))) AS title,
    concat('observed TTFT is ', toString(round(100 * bias)), ' % away from what was predicted, over ', toString(k), ' requests') AS body, 'drift' AS kind
  FROM (
    SELECT link, ten, k, bias, lagInFrame(bias, 1, 0.) OVER (PARTITION BY link ORDER BY ten ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS before
    FROM (
      SELECT link, toStartOfInterval(minute, INTERVAL 10 MINUTE) AS ten, sum(n_predicted) AS k, sum(sum_error) / (sum(sum_ttft) - sum(sum_error)) AS bias
      FROM ` + s.slices() + ` GROUP BY link, ten HAVING k >= 100
    )
  ) WHERE abs(bias) > ` + driftFrom + ` AND abs(before) <= ` + driftFrom
}
