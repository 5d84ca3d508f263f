package query

// stages of TTFT: they add up to it.
var stages = []struct{ name, title, text string }{
	{"gpu_queue", "GPU queue", "waiting for the GPU"},
	{"exposed_stall", "Exposed stall", "the GPU slot waited for the transfer; what hides behind the queue is not in it"},
	{"restore", "Restore", "bringing what arrived into place"},
	{"prefill", "Prefill", "computing tokens"},
	{"remainder", "Remainder", "TTFT that no stage explains; it can be negative"},
}

// stagesStatement gives where the mean TTFT went.
func stagesStatement(q Question, s Scope) Statement {
	fields := []Field{q.byField()}
	group, shape, at := "name", ShapeNumeric, ""
	if q.View == "series" {
		fields = []Field{{Name: "time", Title: "Time", expr: "at"}, q.byField()}
		group, shape, at = "at, name", ShapeSeries, s.at("minute").expr+" AS at, "
	} else {
		fields = append(fields, number("requests", "Requests", "short", "k"))
	}
	sums := ""
	for _, stage := range stages {
		fields = append(fields, number(stage.name, stage.title, "s", ratio("s_"+stage.name, "k")).means(stage.text))
		sums += ", sum(sum_" + stage.name + ") AS s_" + stage.name
	}
	fields = append(fields, number("ttft", "TTFT", "s", ratio("t", "k")).means("mean time to the first token: the sum of its stages"))
	from := `(
  SELECT ` + at + q.by() + ` AS name, toFloat64(sum(n_stages)) AS k, sum(sum_ttft_stages) AS t` + sums + `
  FROM ` + s.slices() + `
  GROUP BY ` + group + ` HAVING k > 0
)
ORDER BY ` + group
	return statement(shape, from, fields)
}
