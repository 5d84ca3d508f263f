package query

import (
	"fmt"
	"math"
	"strconv"

	"github.com/kvwhatif/kvwhatif/schema"
)

var sizeNames = func() (names []string) {
	for i := 0; i <= len(schema.SizeBuckets); i++ {
		names = append(names, schema.SizeBucketName(i))
	}
	return names
}()

func itoa(i int) string { return strconv.Itoa(i) }

// benefitSteps colour seconds saved: no value grey, below 0 red, from 0 on green.
var benefitSteps = []Step{{math.Inf(-1), "#8e8e8e"}, {-math.MaxFloat64, "red"}, {0, "green"}}

// by is the dimension of a question, as an expression over slices.
func (q Question) by() string { return byColumns[q.By] }

func (q Question) byField() Field {
	name, title := q.By, q.By
	if q.By == "" {
		name, title = "of", "of"
	}
	expr := "if(name = '', '" + None + "', name)"
	if q.By == "size" {
		expr = size("name")
	}
	return Field{Name: name, Title: title, expr: expr}
}

// pair limits estimates as the report does: by path each path against its usual
// alternative, otherwise fetched requests against recomputing.
func (q Question) pair(s Scope) string {
	if q.By == "path" || s.Only["path"] != "" {
		return "pair_to = if(pair_from = 'recompute', 'fetch', 'recompute')"
	}
	return "pair_from = 'fetch' AND pair_to = 'recompute'"
}

// chosen limits slices to the same decisions.
func (q Question) chosen(s Scope) string {
	if q.By == "path" || s.Only["path"] != "" {
		return "path != ''"
	}
	return "path = 'fetch'"
}

func benefitStatement(q Question, s Scope) Statement {
	switch {
	case q.View == "table":
		return benefitTable(q, s)
	case q.Source == "measured":
		return measuredSeries(q, s)
	}
	return predictedSeries(q, s)
}

// moments are mean and 95 % interval of k independent values with the sums given.
func moments(k, sum, sum2 string) (mean, half string) {
	mean = ratio(sum, k)
	half = fmt.Sprintf("if(%[1]s > 1, %[2]s * sqrt(greatest(0, %[4]s / %[1]s - pow(%[3]s / %[1]s, 2)) / (%[1]s - 1)), NULL)", k, studentT(k+" - 1"), sum, sum2)
	return mean, half
}

// supported says whether a measurement may be shown at all.
var supported = fmt.Sprintf("legs >= %d AND blocks >= %d", minLegs, minBlocks)

// measured is the estimate of each name: ΣS/Σn over blocks of time, its variance
// that between blocks and that of the correction, as measurement.set has it. point
// is what else rows are told apart by, such as ", time".
func (q Question) measured(s Scope, point, pointExpr string) string {
	name := byColumns[q.By]
	switch q.By {
	case "path":
		name = "toString(pair_from)"
	case "tier":
		name = "toString(tier)"
	}
	return `(
  SELECT name` + point + `, sum(bn) AS mn, sum(bl) AS legs, count() AS blocks, sum(bs) / mn AS est,
    sum(bs * bs) - 2 * est * sum(bs * bn) + est * est * sum(bn * bn) AS ss, max(bv) AS dv, max(br) AS why,
    ` + studentT("blocks - 1") + ` * sqrt(greatest(0, ss) / (mn * mn) * blocks / (blocks - 1) + dv) AS half
  FROM (
    SELECT ` + name + ` AS name` + pointExpr + `, block, toFloat64(sumIf(n, reason = '')) AS bn, toFloat64(sumIf(e.legs, reason = '')) AS bl,
      sumIf(sum_phi, reason = '') AS bs, max(ifNull(delta_var, 0)) AS bv, anyIf(toString(reason), reason != '') AS br
    FROM estimates AS e FINAL
    WHERE lower(estimator) = 'aipw' AND ` + q.pair(s) + " AND " + s.minutes("block") + s.only(estimateColumn) + `
    GROUP BY name` + point + `, block
  ) WHERE bn > 0 GROUP BY name` + point + `
)`
}

// benefitTable is a row a value of the dimension: what was predicted of all its
// requests, and what replays measured.
func benefitTable(q Question, s Scope) Statement {
	mean, half := moments("known", "sb", "sb2")
	shown := func(expr string) string { return "if(" + supported + ", " + expr + ", NULL)" }
	fields := []Field{
		q.byField(),
		number("requests", "Requests", "short", "requests"),
		number("hurt", "Hurt", "percentunit", ratio("hurts", "known")).means("share of the requests with a known benefit that the choice is predicted to have hurt"),
		number("unknown", "Unknown", "percentunit", ratio("missing", "requests")).means("share of the requests whose benefit is not known"),
		number("predicted", "Predicted", "s", mean).means("mean seconds saved against the path not taken, as the cost model predicts them").colored(benefitSteps...),
		number("predicted_low", "Predicted low", "s", mean+" - "+half),
		number("predicted_high", "Predicted high", "s", mean+" + "+half),
		number("measured", "Measured", "s", shown("est")).means("mean seconds saved, from replays").colored(benefitSteps...),
		number("measured_low", "Measured low", "s", shown("est - half")),
		number("measured_high", "Measured high", "s", shown("est + half")),
		number("saved", "Saved", "s", shown("est * mn")).means("measured mean times the decisions that it is of: seconds of TTFT in all"),
		number("unmeasured", "Unmeasured", "percentunit", "if("+supported+", greatest(0, 1 - mn / requests), 1)").means("share of the requests that the measurement says nothing of"),
		number("replays", "Replays", "short", "legs"),
		number("blocks", "Blocks", "short", "blocks").means("blocks of time with replays"),
		text("reason", "Why", "multiIf("+supported+", '', why != '', why, legs = 0, 'nothing was estimated here', legs < "+itoa(minLegs)+
			", concat(toString(toUInt64(legs)), ' replays came back, and an interval needs "+itoa(minLegs)+"'), concat(toString(blocks), ' blocks of time with replays, and an interval needs "+itoa(minBlocks)+"'))"),
	}
	from := `(
  SELECT ` + q.by() + ` AS name, toFloat64(sum(n)) AS requests, sum(slices.hurt) AS hurts, sum(slices.unknown) AS missing, requests - missing AS known,
    sum(sum_benefit) AS sb, sum(sum_benefit2) AS sb2
  FROM ` + s.slices() + " AND " + q.chosen(s) + `
  GROUP BY name HAVING requests > 0
) AS p LEFT JOIN ` + q.measured(s, "", "") + ` AS m USING (name)
ORDER BY name`
	return statement(ShapeNumeric, from, fields)
}

func predictedSeries(q Question, s Scope) Statement {
	mean, half := moments("known", "sb", "sb2")
	fields := []Field{
		{Name: "time", Title: "Time", expr: "at"},
		q.byField(),
		number("predicted", "Predicted", "s", mean).means("mean seconds saved, predicted"),
		number("predicted_low", "Low", "s", mean+" - "+half),
		number("predicted_high", "High", "s", mean+" + "+half),
		number("hurt", "Hurt", "percentunit", ratio("hurts", "known")),
	}
	from := `(
  SELECT ` + s.at("minute").expr + ` AS at, ` + q.by() + ` AS name, sum(slices.hurt) AS hurts, toFloat64(sum(n) - sum(slices.unknown)) AS known,
    sum(sum_benefit) AS sb, sum(sum_benefit2) AS sb2
  FROM ` + s.slices() + " AND " + q.chosen(s) + `
  GROUP BY at, name
)
ORDER BY at, name`
	return statement(ShapeSeries, from, fields)
}

func measuredSeries(q Question, s Scope) Statement {
	shown := func(expr string) string { return "if(" + supported + ", " + expr + ", NULL)" }
	fields := []Field{
		{Name: "time", Title: "Time", expr: "at"},
		q.byField(),
		number("measured", "Measured", "s", shown("est")).means("mean seconds saved, from replays"),
		number("measured_low", "Low", "s", shown("est - half")),
		number("measured_high", "High", "s", shown("est + half")),
		number("replays", "Replays", "short", "legs"),
	}
	from := q.measured(s, ", at", ", "+s.at("block").expr+" AS at") + "\nORDER BY at, name"
	return statement(ShapeSeries, from, fields)
}
