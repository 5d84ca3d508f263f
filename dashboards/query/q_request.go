package query

import "strings"

// keys are the rows of the request that is named, without merging all others.
func (q Question) keys() string {
	name := strings.TrimSpace(q.Request)
	if hexID.MatchString(name) {
		raw := "unhex(" + Quote(name) + ")"
		return "(SELECT minute, id FROM requests WHERE trace = " + raw + " OR id = " + raw + ")"
	}
	return "(SELECT minute, id FROM requests WHERE request_id = " + Quote(name) + " OR engine_request_id = " + Quote(name) + ")"
}

// requestStatement gives one request. The stages of a candidate are predictions;
// its exposed stall is what its queue does not hide of its transfer.
func requestStatement(q Question) Statement {
	if q.View == "facts" {
		return requestFacts(q)
	}
	fields := []Field{
		text("request", "Request", "rid"),
		text("what", "What", "what"),
		text("path", "Path", "p"),
		text("worker", "Worker", "w"),
		text("link", "Link", "l"),
	}
	for i, stage := range stages {
		fields = append(fields, number(stage.name, stage.title, "s", "s["+itoa(i+1)+"]").means(stage.text))
	}
	fields = append(fields,
		number("ttft", "TTFT", "s", "s[6]"),
		number("bytes", "Bytes", "bytes", "s[7]"),
		number("externality", "Delay of others", "s", "s[8]").means("predicted delay of others"),
		number("propensity", "Propensity", "percentunit", "s[9]").means("probability with which the policy took it"),
	)
	f := func(column string) string { return "ifNull(toFloat64(" + column + "), nan)" }
	in := " FINAL WHERE (minute, id) GLOBAL IN " + q.keys()
	observed := "[" + f("gpu_queue") + ", " + f("exposed_stall") + ", " + f("restore") + ", " + f("prefill") + ", " + f("remainder") + ", " + f("ttft") + ", " + f("bytes")
	wire := "if(b > 0 AND bw > 0, greatest(0., ifNotFinite(tq, 0) + b / bw - gq), nan)"
	from := `(
  SELECT lower(hex(id)) AS rid, 0 AS ord, 'taken, observed' AS what, toString(path) AS p, worker AS w, link AS l, ` + observed + `, ` + f("externality") + `, nan] AS s
  FROM requests` + in + `
  UNION ALL
  SELECT rid, i, if(i = c + 1, 'taken, predicted', if(p = ap AND abs(t - at) < 1e-6, 'alternative, predicted', 'candidate, predicted')) AS what, p, w, l,
    [gq, ` + wire + `, r, k, nan, t, if(b < 0, nan, b), x, pr] AS s
  FROM (
    SELECT lower(hex(id)) AS rid, toInt16(ifNull(chosen, 255)) AS c, toString(alt_path) AS ap, toFloat64(ifNull(alt_ttft, -1)) AS at, i, toString(cp) AS p, w, l,
      toFloat64(gq0) AS gq, toFloat64(tq0) AS tq, toFloat64(bw0) AS bw, toFloat64(b0) AS b, toFloat64(r0) AS r, toFloat64(k0) AS k, toFloat64(t0) AS t, toFloat64(x0) AS x, toFloat64(pr0) AS pr
    FROM (SELECT * FROM requests` + in + `)
    ARRAY JOIN arrayEnumerate(candidate.path) AS i, candidate.path AS cp, candidate.worker AS w, candidate.links AS l, candidate.gpu_queue AS gq0, candidate.transfer_queue AS tq0,
      candidate.bandwidth AS bw0, candidate.bytes AS b0, candidate.restore AS r0, candidate.recompute AS k0, candidate.ttft AS t0, candidate.externality AS x0, candidate.propensity AS pr0
  )
  UNION ALL
  SELECT lower(hex(id)) AS rid, 1000 AS ord, concat(toString(leg), ' replay, measured') AS what, toString(path) AS p, worker AS w, link AS l, ` + observed + `, nan, nan] AS s
  FROM replays FINAL WHERE id GLOBAL IN (SELECT id FROM requests WHERE (minute, id) GLOBAL IN ` + q.keys() + `)
)
ORDER BY rid, ord, ttft`
	return statement(ShapeTable, from, fields)
}

// requestFacts is what is known of the request beside its times.
func requestFacts(q Question) Statement {
	fields := []Field{
		{Name: "time", Title: "Decided", expr: "toDateTime64(start, 9, 'UTC')"},
		text("id", "Row id", "lower(hex(id))"), text("trace", "Trace", "lower(hex(trace))"), text("request_id", "Request id", "request_id"),
		text("policy", "Policy", "policy"), number("revision", "Revision", "none", "revision"), text("model", "Model", "model"), text("gpu", "GPU", "gpu"),
		text("path", "Path", "toString(path)"), text("worker", "Worker", "worker"), text("source", "From", "source_worker"), text("tier", "Tier", "toString(tier)"), text("link", "Link", "link"),
		number("prompt", "Prompt tokens", "short", "tokens_prompt"), number("prefix", "Prefix tokens", "short", "tokens_prefix"), number("reused", "Reused tokens", "short", "tokens_reused"),
		number("bytes", "Bytes", "bytes", "bytes"), number("flows", "Flows on the link", "short", "link_flows"), number("active", "Active on the worker", "short", "worker_active"), number("state_age", "Age of the state", "s", "state_age"),
		text("against", "Not taken", "toString(alt_path)"), number("alt_ttft", "TTFT not taken", "s", "alt_ttft").means("predicted"), number("benefit", "Benefit", "s", "benefit").colored(benefitSteps...),
		number("engine_ttft", "Engine's TTFT", "s", "engine_ttft"), number("engine_queue", "Engine's queue", "s", "engine_queue"), number("engine_prefill", "Engine's prefill", "s", "engine_prefill"), number("engine_cached", "Engine's cached tokens", "short", "engine_tokens_cached"),
		number("parts", "Spans", "short", "length(spans)"), text("conflict", "Conflict", "if(length(contents) > length(spans), 'one span came with two contents', '')"),
	}
	return statement(ShapeTable, "(SELECT *, benefit FROM requests FINAL WHERE (minute, id) GLOBAL IN "+q.keys()+")\nORDER BY start", fields)
}
