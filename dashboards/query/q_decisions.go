package query

// decisionsStatement gives single decisions: those that look worst, by the rollup
// of them, or the newest of all.
func decisionsStatement(q Question, s Scope) Statement {
	fields := []Field{
		{Name: "time", Title: "Decided", expr: "toDateTime64(start, 9, 'UTC')"},
		text("id", "Row id", "lower(hex(id))"),
		text("trace", "Trace", "lower(hex(trace))"),
		text("policy", "Policy", "policy"),
		text("model", "Model", "model"),
		text("path", "Path", "toString(path)"),
		text("link", "Link", "link"),
		text("tier", "Tier", "toString(tier)"),
		text("worker", "Worker", "worker"),
		number("prefix", "Prefix tokens", "short", "tokens_prefix"),
		number("bytes", "Bytes", "bytes", "bytes"),
		number("ttft", "TTFT", "s", "ttft").means("observed"),
		text("against", "Not taken", "toString(alt_path)"),
		number("alt_ttft", "TTFT not taken", "s", "alt_ttft").means("predicted of the path not taken"),
		number("benefit", "Benefit", "s", "benefit").means("predicted seconds saved, effects on others included: a prediction, of a single draw").colored(benefitSteps...),
	}
	if q.View == "all" {
		// benefit is an alias of the table: upon shards it can not have its own name again.
		from := "(SELECT *, requests.benefit AS benefit FROM requests FINAL WHERE " + s.minutes("minute") + s.only(requestColumns) + " AND kind != 'orphan' ORDER BY start DESC, id LIMIT " + itoa(q.Limit) + ")\nORDER BY start DESC, id"
		return statement(ShapeTable, from, fields)
	}
	fields = append(fields, number("shrunk", "Shrunk", "s", "shrunk").means("the benefit drawn towards the mean of its kind; the order is by it"))
	from := s.rollup("worst") + s.only(worstColumns) + " AND shrunk < 0\nORDER BY worst.shrunk, worst.id LIMIT " + itoa(q.Limit)
	return statement(ShapeTable, from, fields)
}
