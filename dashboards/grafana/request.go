package grafana

// found are the keys of the requests that the text box names: by trace or by
// request id. Each way has an index; the range bounds what is looked through.
var found = "(SELECT minute, id FROM requests WHERE " + minutes("minute") + " AND trace = unhex(if(match(${request:sqlstring}, '^[0-9a-fA-F]{32}$'), ${request:sqlstring}, '')) UNION DISTINCT SELECT minute, id FROM requests WHERE " +
	minutes("minute") + " AND request_id != '' AND request_id = ${request:sqlstring})"

var matching = "requests FINAL WHERE " + minutes("minute") + " AND (minute, id) GLOBAL IN " + found

const noSuch = "No such request in this range. Give a trace id (32 hex digits) or a request id above, and a range that holds it: a click on a decision of the overview does both."

func request() Dashboard {
	return Dashboard{
		UID: "kvwhatif-request", Title: "kvwhatif: one request", Request: true,
		Text:   "The stages of one request, beside the path that it did not take.",
		Panels: place(facts(), waterfall(), candidates(), legsOf(), transfersOf()),
	}
}

func facts() Panel {
	return Panel{ID: 1, Kind: Table, Title: "The request", W: 24, H: 5,
		Text: "What happened. A trace can hold several requests. saved is predicted: positive means that the path taken was the faster one, everything counted. Empty: not said.",
		SQL: "SELECT toDateTime(start) AS time, lower(hex(trace)) AS trace, toString(request_id) AS `request id`, toString(kind) AS kind, toString(policy) AS policy, toString(model) AS model, toString(worker) AS worker, " + named("toString(path)") + " AS path, " + named("toString(alt_path)") + " AS instead, toString(link) AS link, toFloat64(tokens_prompt) AS prompt, toFloat64(tokens_prefix) AS prefix, toFloat64(tokens_reused) AS reused, toFloat64(ttft) AS ttft, toFloat64(alt_ttft) AS predicted, toFloat64(benefit) AS saved, toFloat64(engine_ttft) AS `engine ttft` FROM " +
			matching + " ORDER BY start LIMIT 20",
		Columns: []Column{at("time"), text("trace"), text("request id"), text("kind"), text("policy"), text("model"), text("worker"), text("path"), text("instead"), text("link"), number("prompt", "short"), number("prefix", "short"), number("reused", "short"), number("ttft", "s"), number("predicted", "s"), number("saved", "s"), number("engine ttft", "s")},
		Empty:   noSuch}
}

func waterfall() Panel {
	stall := "greatest(0, if(isNaN(candidate.transfer_queue[i]), 0, candidate.transfer_queue[i]) + candidate.bytes[i] / candidate.bandwidth[i] - candidate.gpu_queue[i])"
	none := func(expr string) string {
		return "toFloat64(if(i = 0 OR NOT isFinite(" + expr + "), NULL, " + expr + "))"
	}
	return Panel{ID: 2, Kind: Bars, Title: "Stages of the path taken, and of the one not taken (predicted)", W: 12, H: 9,
		Text: "Seconds. Observed on the left, predicted at the decision on the right. stall is the part of the transfer that the GPU queue does not hide. Where one stage is far from its prediction, that law is wrong for requests like this.",
		SQL: "WITH arrayFirstIndex((p, t) -> p = toString(alt_path) AND t = alt_ttft, arrayMap(p -> toString(p), candidate.path), candidate.ttft) AS i SELECT s.1 AS stage, s.2 AS taken, s.3 AS `not taken` FROM (SELECT start, [('GPU queue', toFloat64(gpu_queue), " + none("candidate.gpu_queue[i]") + "), ('stall', toFloat64(exposed_stall), " + none("if(candidate.bytes[i] > 0, "+stall+", 0)") + "), ('restore', toFloat64(restore), " + none("candidate.restore[i]") + "), ('prefill', toFloat64(prefill), " + none("candidate.recompute[i]") + "), ('remainder', toFloat64(remainder), toFloat64(NULL)), ('TTFT', toFloat64(ttft), toFloat64(alt_ttft))] AS all FROM " +
			matching + " ORDER BY start LIMIT 1) ARRAY JOIN all AS s",
		Columns: []Column{text("stage"), number("taken", "s"), number("not taken", "s")}, Empty: noSuch}
}

func candidates() Panel {
	na := func(expr string) string {
		return "toFloat64(if(isFinite(" + expr + ") AND " + expr + " != -1, " + expr + ", NULL))"
	}
	return Panel{ID: 3, Kind: Table, Title: "Candidates, as predicted at the decision", W: 12, H: 9,
		Text: "What the coordinator chose among. propensity is the probability with which it took each. A choice that is not the smallest ttft plus externality explored, or its policy does not follow predictions.",
		SQL: "SELECT if(k - 1 = chosen, 'yes', '') AS chosen, p AS path, w AS worker, l AS links, " + na("t") + " AS ttft, " + na("x") + " AS externality, " + na("q") + " AS `GPU queue`, " + na("b") + " AS bytes, " + na("c") + " AS computed, " + na("r") + " AS propensity FROM (SELECT start, chosen, arrayMap(p -> toString(p), candidate.path) AS ps, candidate.worker AS ws, candidate.links AS ls, candidate.ttft AS ts, candidate.externality AS xs, candidate.gpu_queue AS qs, candidate.bytes AS bs, candidate.tokens_computed AS cs, candidate.propensity AS rs FROM " +
			matching + " ORDER BY start LIMIT 1) ARRAY JOIN arrayEnumerate(ps) AS k, ps AS p, ws AS w, ls AS l, ts AS t, xs AS x, qs AS q, bs AS b, cs AS c, rs AS r ORDER BY ttft",
		Columns: []Column{text("chosen"), text("path"), text("worker"), text("links"), number("ttft", "s"), number("externality", "s"), number("GPU queue", "s"), number("bytes", "bytes"), number("computed", "short"), number("propensity", "percentunit")}, Empty: noSuch}
}

func legsOf() Panel {
	return Panel{ID: 4, Kind: Table, Title: "Its replays", W: 12, H: 7, MayBeEmpty: true,
		Text:    "Legs of this request that ran later. Their TTFT is at another load: compare model_decision with model_replay before comparing it with the request.",
		SQL:     "SELECT toDateTime(start) AS time, toString(leg) AS leg, toString(path) AS path, worker, toFloat64(ttft) AS ttft, model_decision AS `predicted then`, model_replay AS `predicted at replay`, inclusion AS probability FROM replays FINAL WHERE start >= " + from + " AND id GLOBAL IN (SELECT id FROM " + found + ") ORDER BY start LIMIT 50",
		Columns: []Column{at("time"), text("leg"), text("path"), text("worker"), number("ttft", "s"), number("predicted then", "s"), number("predicted at replay", "s"), number("probability", "percentunit")},
		Empty:   "This request was not drawn, or its legs have not come back. Few are drawn."}
}

func transfersOf() Panel {
	return Panel{ID: 5, Kind: Table, Title: "What was moved for it", W: 12, H: 7, MayBeEmpty: true,
		Text:    "Transfers of its trace, by the contract span and by caches. Where both tell the same movement, their bytes should agree; where not, one of them counts padding or a part only.",
		SQL:     "SELECT toDateTime(start) AS time, toString(origin) AS told, operation, toString(tier) AS tier, link, toFloat64(bytes) AS bytes, toFloat64(queue) AS queue, duration, toFloat64(flows) AS flows FROM transfers FINAL WHERE " + instants("start") + " AND trace GLOBAL IN (SELECT trace FROM requests WHERE (minute, id) GLOBAL IN " + found + ") ORDER BY start LIMIT 50",
		Columns: []Column{at("time"), text("told"), text("operation"), text("tier"), text("link"), number("bytes", "bytes"), number("queue", "s"), number("duration", "s"), number("flows", "short")},
		Empty:   "Nothing was moved for this request."}
}
