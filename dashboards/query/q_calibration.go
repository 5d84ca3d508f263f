package query

import "math"

// ttlSteps colour what is left of a document's time, seconds.
var ttlSteps = []Step{{math.Inf(-1), "#8e8e8e"}, {-math.MaxFloat64, "red"}, {0, "orange"}, {3600, "green"}}

func calibrationStatement(q Question, s Scope) Statement {
	switch q.View {
	case "terms":
		return calibrationTerms()
	case "history":
		return calibrationHistory(s)
	case "series":
		return calibrationSeries(s)
	case "coordinators":
		return calibrationCoordinators()
	}
	return calibrationDocument()
}

func nanos(field string) string { return "JSONExtractInt(d, '" + field + "') / 1e9" }

// calibrationDocument is the document that was published last, whatever the range.
func calibrationDocument() Statement {
	now := "toFloat64(now64(3))"
	fields := []Field{
		number("revision", "Revision", "none", "revision"),
		number("previous", "Previous", "none", "JSONExtractInt(d, 'previous')"),
		number("age", "Age", "s", now+" - toFloat64(created)").means("since it was published"),
		number("refresh", "Refresh in", "s", nanos("refresh_after_unix_nanos")+" - "+now),
		number("left", "Expires in", "s", nanos("expires_unix_nanos")+" - "+now).means("below 0 coordinators decide by their fallback").colored(ttlSteps...),
		number("requests", "Requests", "short", "JSONExtractInt(d, 'fit', 'n')").means("that the fit saw"),
		number("laws", "Laws", "short", "length(JSONExtractArrayRaw(d, 'prefill')) + length(JSONExtractArrayRaw(d, 'transfer')) + length(JSONExtractArrayRaw(d, 'restore'))"),
		number("priced", "Priced links", "short", "length(JSONExtractArrayRaw(d, 'links'))"),
		text("provenance", "Made by", "JSONExtractString(d, 'provenance')"),
		text("note", "Note", "note"),
	}
	return statement(ShapeNumeric, "(SELECT revision, created, payload AS d, note FROM coefficients FINAL ORDER BY revision DESC, created DESC LIMIT 1)", fields)
}

// calibrationTerms is a row a law of it.
func calibrationTerms() Statement {
	quality := func(field string) string { return "JSONExtractFloat(x, 'quality', '" + field + "')" }
	fields := []Field{
		text("term", "Term", "kind"),
		text("of", "Of", "arrayStringConcat(arrayFilter(t -> t != '', [JSONExtractString(x, 'model'), JSONExtractString(x, 'gpu'), JSONExtractString(x, 'tier'), JSONExtractString(x, 'link')]), ', ')"),
		text("form", "Form", "JSONExtractString(x, 'quality', 'form')"),
		number("n", "Points", "short", quality("n")),
		number("error", "Error", "percentunit", quality("mean_relative_error")).means("mean relative error on points that the fit did not see"),
		number("floor", "Floor", "percentunit", quality("repeat_noise")).means("repeat noise: what no law could beat"),
		number("low", "5 %", "s", "JSONExtractFloat(x, 'quality', 'residual_quantiles', 1)").means("5 % of the residuals, observed less predicted, are below this"),
		number("high", "95 %", "s", "JSONExtractFloat(x, 'quality', 'residual_quantiles', 5)"),
		number("max_tokens", "Up to tokens", "short", quality("max_tokens")),
		number("max_bytes", "Up to bytes", "bytes", quality("max_bytes")),
		number("max_concurrent", "Up to flows", "short", quality("max_concurrent")),
		text("law", "Law", "JSONExtractRaw(x, 'law')"),
	}
	from := `(
  SELECT p.1 AS kind, p.2 AS x FROM (SELECT ` + document + ` AS d,
    arrayJoin(arrayConcat(arrayMap(j -> ('prefill', j), JSONExtractArrayRaw(d, 'prefill')), arrayMap(j -> ('transfer', j), JSONExtractArrayRaw(d, 'transfer')),
      arrayMap(j -> ('restore', j), JSONExtractArrayRaw(d, 'restore')), if(JSONHas(d, 'queue'), [('queue', JSONExtractRaw(d, 'queue'))], []))) AS p)
)
ORDER BY kind, of`
	return statement(ShapeNumeric, from, fields)
}

// calibrationHistory is a row a document that was published in the range.
func calibrationHistory(s Scope) Statement {
	fields := []Field{
		{Name: "time", Title: "Published", expr: "toDateTime64(created, 3, 'UTC')"},
		number("revision", "Revision", "none", "revision"),
		number("previous", "Previous", "none", "JSONExtractInt(payload, 'previous')"),
		text("kind", "Kind", publication),
		number("requests", "Requests", "short", "JSONExtractInt(payload, 'fit', 'n')"),
		text("provenance", "Made by", "JSONExtractString(payload, 'provenance')"),
		text("note", "Note", "note"),
	}
	return statement(ShapeTable, "coefficients FINAL WHERE "+s.instants("created")+" ORDER BY created DESC LIMIT 1000", fields)
}

// calibrationSeries is how far the predictions of what was chosen are off.
func calibrationSeries(s Scope) Statement {
	fields := []Field{
		{Name: "time", Title: "Time", expr: "at"},
		number("bias", "Bias", "s", ratio("e", "k")).means("mean of observed less predicted TTFT"),
		number("error", "Error", "s", ratio("a", "k")).means("mean distance of observed and predicted TTFT"),
		number("relative", "Relative error", "percentunit", ratio("a", "t")).means("by the mean TTFT"),
	}
	from := `(
  SELECT ` + s.at("minute").expr + ` AS at, toFloat64(sum(n_predicted)) AS k, sum(sum_error) AS e, sum(sum_abs_error) AS a, sum(sum_ttft) AS t
  FROM ` + s.slices() + `
  GROUP BY at HAVING k > 0
)
ORDER BY at`
	return statement(ShapeSeries, from, fields)
}

// calibrationCoordinators is the last word of each coordinator of the last days.
func calibrationCoordinators() Statement {
	fields := []Field{
		text("instance", "Coordinator", "instance"),
		number("revision", "Revision", "none", "revision"),
		number("behind", "Behind", "short", "greatest(0, toFloat64((SELECT max(revision) FROM coefficients)) - toFloat64(revision))").means("revisions that it has not said a word of"),
		text("state", "State", "if(applied, 'applied', 'refused')"),
		number("age", "Heard", "s", "toFloat64(now64(3)) - toFloat64(at)").means("since it was heard last"),
		text("reason", "Why", "reason"),
	}
	from := "(SELECT * FROM coordinator_status FINAL WHERE at >= now64(9) - INTERVAL 7 DAY ORDER BY at DESC LIMIT 1 BY instance)\nORDER BY applied, instance"
	return statement(ShapeNumeric, from, fields)
}
