package query

import "math"

// stateSteps colour a verdict as a number: unknown grey, hurting red, even blue,
// helping green.
var stateSteps = []Step{{math.Inf(-1), "#8e8e8e"}, {-1, "red"}, {0, "blue"}, {1, "green"}}

// size is a size bucket, whose number is given as text, for people.
func size(expr string) string {
	names, numbers := "'"+None+"'", "'-1'"
	for i := range sizeNames {
		numbers += ", '" + itoa(i) + "'"
		names += ", " + Quote(sizeNames[i])
	}
	return "transform(" + expr + ", [" + numbers + "], [" + names + "], " + expr + ")"
}

// verdictStatement gives the last word on each scope among the verdicts whose
// decisions overlap the range: on all requests of a link or of all links, and by
// policy where none is of all policies; narrower ones where the filter says so.
func verdictStatement(s Scope) Statement {
	fields := []Field{
		{Name: "link", Title: "Link", expr: "if(link = '', 'all links', link)"},
		{Name: "policy", Title: "Policy", expr: "if(policy = '', 'all', policy)"},
		{Name: "model", Title: "Model", expr: "if(model = '', 'all', model)"},
		text("path", "Path", "toString(pair_from)"),
		text("against", "Against", "toString(pair_to)"),
		text("verdict", "Verdict", "if(lo IS NULL OR hi IS NULL, 'unknown', toString(verdict))"),
		number("state", "State", "", "if(lo IS NULL OR hi IS NULL, NULL, multiIf(verdict = 'helps', 1, verdict = 'hurts', -1, verdict = 'even', 0, NULL))").
			means("1 helps, 0 even, -1 hurts; without a value: unknown").colored(stateSteps...),
		number("saved", "TTFT saved", "s", "estimate").means("mean seconds of TTFT that a choice of this path saved; negative: it cost"),
		number("low", "Low", "s", "lo"),
		number("high", "High", "s", "hi"),
		number("level", "Level", "percentunit", "level").means("coverage of the interval from low to high"),
		number("decisions", "Decisions", "short", "n"),
		number("replays", "Replays", "short", "legs").means("replays behind the estimate"),
		number("ess", "Effective replays", "short", "ess"),
		number("unmeasured", "Without support", "percentunit", "unknown_share").means("share of the decisions of which nothing can be said"),
		number("age", "Age", "s", "toFloat64(now64(3)) - toFloat64(at)").means("since the verdict was given"),
		text("reason", "Why", "reason"),
	}
	where := "target = 'window' AND lower(estimator) = 'aipw' AND window_from < " + s.Until + " AND window_until > " + s.From
	for _, c := range []string{"policy", "model", "tier", "link", "size"} {
		column := map[string]string{"size": "size_bucket"}[c]
		if column == "" {
			column = c
		}
		switch {
		case s.Only[c] != "":
			where += " AND " + column + " IN (" + s.Only[c] + ")"
		case c == "model", c == "tier", c == "size":
			where += " AND " + column + " = ''"
		}
	}
	if s.Only["path"] != "" {
		where += " AND toString(pair_from) IN (" + s.Only["path"] + ")"
	}
	named := ""
	if s.Only["policy"] == "" {
		named = " WHERE policy = '' OR whole = 0"
	}
	from := `(SELECT * FROM (
  SELECT *, countIf(policy = '') OVER () AS whole FROM (
    SELECT * FROM verdicts FINAL WHERE ` + where + `
    ORDER BY at DESC, window_until DESC LIMIT 1 BY policy, model, tier, link, size_bucket, pair_from, pair_to
  )
)` + named + ")"
	from += "\nORDER BY pair_from = 'fetch' AND pair_to = 'recompute' DESC, isNull(lo), verdict = 'hurts' DESC, verdict = 'unknown' DESC, n DESC, link, policy, pair_from, pair_to"
	return statement(ShapeNumeric, from, fields)
}
