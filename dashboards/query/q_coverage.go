package query

import "math"

// coverageSteps colour a share that should be large.
var coverageSteps = []Step{{math.Inf(-1), "#8e8e8e"}, {0, "red"}, {0.8, "orange"}, {0.95, "green"}}

// coverageStatement gives how much of the traffic the answers rest on.
func coverageStatement(q Question, s Scope) Statement {
	switch q.View {
	case "series":
		return coverageSeries(s)
	case "legs":
		return coverageLegs(s)
	}
	fields := []Field{
		number("requests", "Requests", "short", "requests"),
		number("decided", "With a decision", "percentunit", ratio("decided", "requests")).means("share of the requests whose coordinator said what it chose").colored(coverageSteps...),
		number("predicted", "With a benefit", "percentunit", ratio("predicted", "requests")).means("share of the requests whose benefit is predicted").colored(coverageSteps...),
		number("joined", "With an engine's span", "percentunit", ratio("joined", "requests")),
		number("orphans", "Orphans", "short", "orphaned").means("parts whose request never came"),
		number("conflicts", "Conflicts", "short", "conflicted").means("requests of which one span came with two contents"),
		number("waiting", "Waiting", "short", "(SELECT count() FROM waiting FINAL WHERE day >= toDate("+s.From+") AND day <= toDate("+s.Until+"))").means("parts whose request has not come yet"),
		number("planned", "Replays drawn", "short", "drawn"),
		number("replays", "Replays back", "short", "back"),
		number("coverage", "Replay coverage", "percentunit", ratio("back", "drawn")).means("share of the drawn replays that came back").colored(coverageSteps...),
		number("unmeasured", "Without support", "percentunit", ratio("unsaid", "(unsaid + said)")).means("share of the fetched requests of which replays can say nothing"),
		number("age", "Age of the newest", "s", "(SELECT if(count() > 0, toFloat64(now()) - toFloat64(max(minute)), NULL) FROM slices WHERE minute >= now() - INTERVAL 400 DAY)").means("since the newest minute in the rollups"),
	}
	from := `(
  SELECT toFloat64(sum(n)) AS requests, sumIf(n, path != '') AS decided, sum(n) - sum(unknown) AS predicted, sum(n_engine) AS joined, sum(orphans) AS orphaned, sum(conflicts) AS conflicted
  FROM ` + s.slices() + `
  HAVING requests > 0
) AS a CROSS JOIN (
  SELECT toFloat64(sum(planned)) AS drawn, toFloat64(sum(legs)) AS back, toFloat64(sum(unknown)) AS unsaid, toFloat64(sum(n)) AS said
  FROM estimates FINAL WHERE lower(estimator) = 'aipw' AND pair_from = 'fetch' AND ` + s.minutes("block") + s.only(estimateColumn) + `
) AS b`
	return statement(ShapeNumeric, from, fields)
}

func coverageSeries(s Scope) Statement {
	fields := []Field{
		{Name: "time", Title: "Time", expr: "at"},
		number("requests", "Requests", "reqps", "requests / "+s.Step),
		number("decided", "With a decision", "percentunit", ratio("decided", "requests")),
		number("predicted", "With a benefit", "percentunit", ratio("predicted", "requests")),
		number("joined", "With an engine's span", "percentunit", ratio("joined", "requests")),
	}
	from := `(
  SELECT ` + s.at("minute").expr + ` AS at, toFloat64(sum(n)) AS requests, sumIf(n, path != '') AS decided, sum(n) - sum(unknown) AS predicted, sum(n_engine) AS joined
  FROM ` + s.slices() + `
  GROUP BY at HAVING requests > 0
)
ORDER BY at`
	return statement(ShapeSeries, from, fields)
}

// coverageLegs is the completeness of replays by size, where a sample leans.
func coverageLegs(s Scope) Statement {
	fields := []Field{
		{Name: "size", Title: "Prefix tokens", expr: size("name")},
		text("path", "Path", "a"),
		text("against", "Against", "b"),
		number("decisions", "Decisions", "short", "said"),
		number("planned", "Drawn", "short", "drawn"),
		number("replays", "Back", "short", "back"),
		number("coverage", "Coverage", "percentunit", ratio("back", "drawn")).colored(coverageSteps...),
		number("controls", "Controls", "short", "control").means("control replays behind the correction"),
		text("reason", "Why", "why"),
	}
	from := `(
  SELECT toString(size_bucket) AS name, toString(pair_from) AS a, toString(pair_to) AS b, sum(n) + sum(unknown) AS said, toFloat64(sum(planned)) AS drawn,
    toFloat64(sum(legs)) AS back, max(e.controls) AS control, anyIf(toString(e.reason), e.reason != '') AS why
  FROM estimates AS e FINAL WHERE lower(estimator) = 'aipw' AND ` + s.minutes("block") + s.only(estimateColumn) + `
  GROUP BY name, a, b
)
ORDER BY toInt8OrZero(name), a, b`
	return statement(ShapeNumeric, from, fields)
}
