package query

import "math"

// busySteps colour how full a link is.
var busySteps = []Step{{math.Inf(-1), "#8e8e8e"}, {0, "blue"}, {0.7, "orange"}, {0.9, "red"}}

// document is the payload of the coefficients that were published last.
const document = "ifNull((SELECT payload FROM coefficients FINAL ORDER BY revision DESC, created DESC LIMIT 1), '')"

// capacities are the links that the document has a law of: bytes/s that a link
// carries, and the load that its price aims at.
const capacities = `(
  SELECT JSONExtractString(x, 'link') AS link, max(JSONExtractFloat(x, 'law', 'link', 'b')) AS b, max(JSONExtractFloat(y, 'price', 'load')) AS aim
  FROM (SELECT ` + document + ` AS d, arrayJoin(JSONExtractArrayRaw(d, 'transfer')) AS x,
    arrayFirst(l -> JSONExtractString(l, 'link') = JSONExtractString(x, 'link'), JSONExtractArrayRaw(d, 'links')) AS y)
  GROUP BY link
)`

// linksStatement gives what crossed each link, as spans of requests say it or,
// where no such span came, those of the caches.
func linksStatement(q Question, s Scope) Statement {
	in := s.instants("start")
	origin := "origin != 'replay' AND operation != 'store' AND origin = if((SELECT countIf(origin = 'contract') FROM transfers WHERE " + in + ") > 0, 'contract', 'transfer')"
	rate, seconds := "moved / seconds", "(toFloat64(toDateTime64("+s.Until+", 3)) - toFloat64(toDateTime64("+s.From+", 3)))"
	fields := []Field{label("link", "Link", "link")}
	group, shape, at := "link", ShapeNumeric, ""
	if q.View == "series" {
		fields = []Field{{Name: "time", Title: "Time", expr: "at"}, label("link", "Link", "link")}
		group, shape, at, seconds = "at, link", ShapeSeries, s.at("start").expr+" AS at, ", "toFloat64("+s.Step+")"
	} else {
		fields = append(fields, text("tiers", "Tiers", "tiers"), number("transfers", "Transfers", "short", "k"), number("bytes", "Bytes", "bytes", "moved"))
	}
	fields = append(fields,
		number("rate", "Rate", "Bps", rate).means("bytes a second, over the whole time"),
		number("busy", "Load", "percentunit", "if(b > 0, "+rate+" / b, NULL)").means("rate by what the link was fitted to carry; no value without a fitted law").colored(busySteps...),
		number("queue", "Queue", "s", "waited").means("mean time from the decision to the first byte"),
		number("transfer", "Transfer", "s", "took").means("mean time from the first byte to the last"),
		number("flows", "Flows", "short", "many").means("mean number of transfers on the link when one was decided"),
	)
	if q.View != "series" {
		fields = append(fields,
			number("capacity", "Capacity", "Bps", "if(b > 0, b, NULL)").means("bytes a second that the link carries, as it was fitted"),
			number("aim", "Aim", "percentunit", "if(aim > 0, aim, NULL)").means("load that the link's price aims at"))
	}
	from := `(
  SELECT ` + at + `link, arrayStringConcat(arraySort(groupUniqArray(toString(tier))), ', ') AS tiers, count() AS k, sum(ifNull(bytes, 0)) AS moved, avg(queue) AS waited,
    avg(duration) AS took, avg(flows) AS many, ` + seconds + ` AS seconds
  FROM transfers FINAL WHERE ` + in + " AND " + origin + s.only(linkColumns) + `
  GROUP BY ` + group + `
) AS t LEFT JOIN ` + capacities + ` AS c USING (link)
ORDER BY ` + group
	return statement(shape, from, fields)
}
