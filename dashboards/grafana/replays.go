package grafana

func replays() Dashboard {
	return Dashboard{
		UID: "kvwhatif-replays", Title: "kvwhatif: replays and coverage",
		Text:      "What the measured answers rest on: how much is seen, drawn, run, and refused.",
		Variables: []string{"link", "model", "policy", "path"},
		Panels: place(
			row(1, "Coverage", "Which part of the traffic can be told about."),
			coverageOverTime(), coverageBy(), leftovers(),
			row(10, "Replays", "Legs that ran, and what they cost."),
			legsOverTime(), legsBySize(), refusals(), replayCost(),
			row(20, "Estimators", "The same question asked in four ways."),
			estimators(),
		),
	}
}

func coverageOverTime() Panel {
	return Panel{ID: 2, Kind: Lines, Title: "Coverage over time", W: 12, H: 8,
		Text:    "Shares of requests with a decision, with a predicted alternative (of those whose prefix was not resident), and with an engine's span. Act below 80 %: what is not seen may differ from what is.",
		SQL:     "SELECT " + bucket("minute") + " AS time, " + ratio("sumIf(n, path != '')", "sum(n)") + " AS decided, " + ratio(compared, comparable) + " AS predicted, " + ratio("sum(n_engine)", "sum(n)") + " AS `engine span` FROM " + slices() + " GROUP BY time ORDER BY time",
		Columns: []Column{at("time"), number("decided", "percentunit"), number("predicted", "percentunit"), number("engine span", "percentunit")}, Empty: noRequests}
}

func coverageBy() Panel {
	return Panel{ID: 3, Kind: Table, Title: "Coverage by policy, model and path", W: 12, H: 8,
		Text: "Where requests lack a prediction, without those whose prefix was resident. Act on the largest number of unknown requests: that policy's spans name no second candidate.",
		SQL: "SELECT " + named("policy") + " AS policy, " + named("model") + " AS model, " + named("toString(path)") + " AS path, toFloat64(sum(n)) AS requests, " + ratio(known, "sum(n)") + " AS predicted, toFloat64(sum(unknown)) AS `not known` FROM " + slices() +
			" AND path != 'resident' GROUP BY policy, model, path HAVING requests > 0 ORDER BY `not known` DESC, requests DESC",
		Columns: []Column{text("policy"), text("model"), text("path"), number("requests", "short"), number("predicted", "percentunit").steps(Step{0, "red"}, Step{0.8, "text"}), number("not known", "short")}, Empty: noRequests}
}

func leftovers() Panel {
	bad := []Step{{0, "text"}, {1, "orange"}}
	return Panel{ID: 4, Kind: Stat, Title: "Parts that found no request, and conflicts", W: 24, H: 4,
		Text:    "orphans: parts whose request did not come within a day. conflicts: requests of which a span came with two contents. waiting: parts whose request has not come yet. age: since load last moved on. Act when orphans or waiting grow: request ids of engines and coordinators do not match.",
		SQL:     "SELECT toFloat64(sum(orphans)) AS orphans, toFloat64(sum(conflicts)) AS conflicts, (SELECT toFloat64(count()) FROM waiting FINAL WHERE day >= toDate(" + from + ") AND day <= toDate(" + until + ")) AS waiting, (SELECT if(count() = 0, NULL, toFloat64(dateDiff('second', max(at), now64(9)))) FROM positions) AS age FROM " + rollup("slices"),
		Columns: []Column{number("orphans", "short").steps(bad...), number("conflicts", "short").steps(bad...), number("waiting", "short"), number("age", "s").steps(Step{0, "text"}, Step{600, "orange"})}, Empty: noRequests}
}

// drawn are the estimates that say what was drawn and came back.
var drawn = "estimates FINAL WHERE lower(estimator) = 'aipw' AND " + minutes("block") + onlyEstimates

func legsOverTime() Panel {
	return Panel{ID: 11, Kind: Lines, Title: "Legs drawn, and come back", W: 12, H: 8,
		Text:    "Legs of paths not taken, by the time of their decision. Come back far below drawn: the executor is away, its budget too small, or the kill switch is set. What does not run biases nothing as long as it is held back whole, but intervals widen.",
		SQL:     "SELECT " + bucket("block") + " AS time, toFloat64(sum(planned)) AS drawn, toFloat64(sum(legs)) AS `come back` FROM " + drawn + " GROUP BY time ORDER BY time",
		Columns: []Column{at("time"), number("drawn", "short"), number("come back", "short")}, Empty: "Nothing was replayed or estimated in this range."}
}

func legsBySize() Panel {
	return Panel{ID: 12, Kind: Table, Title: "Support by pair and size of the prefix", W: 12, H: 8,
		Text: "Decisions, legs drawn and come back, and the largest weight. Below 20 legs a cell says nothing. Act where many decisions have few legs: raise the replay rate there.",
		SQL: "SELECT concat(toString(pair_from), ' against ', toString(pair_to)) AS paths, " + size + " AS tokens, toFloat64(sum(n)) AS decisions, toFloat64(sum(planned)) AS drawn, toFloat64(sum(legs)) AS `come back`, max(max_weight) AS `largest weight` FROM " + drawn +
			" GROUP BY pair_from, pair_to, size_bucket ORDER BY pair_from, pair_to, size_bucket",
		Columns: []Column{text("paths"), text("tokens"), number("decisions", "short"), number("drawn", "short"), number("come back", "short").steps(Step{0, "orange"}, Step{20, "text"}), number("largest weight", "short")}, Empty: "Nothing was replayed or estimated in this range."}
}

func refusals() Panel {
	return Panel{ID: 13, Kind: Table, Title: "Estimates that were refused, and why", W: 12, H: 8,
		Text:    "Blocks and slices of which nothing is said for want of support. They count as unknown, never as zero. Act on the most frequent reason.",
		SQL:     "SELECT reason, toFloat64(count()) AS blocks, toFloat64(sum(unknown + n)) AS decisions FROM (SELECT if(reason = '', 'none: estimated', reason) AS reason, n, unknown FROM " + drawn + ") GROUP BY reason ORDER BY blocks DESC",
		Columns: []Column{text("reason"), number("blocks", "short"), number("decisions", "short")}, Empty: "Nothing was replayed or estimated in this range."}
}

func replayCost() Panel {
	return Panel{ID: 14, Kind: Lines, Title: "What replays cost", W: 12, H: 8,
		Text: "GPU seconds and bytes that legs were charged, by the time they ran. Act when they rise above the budget's share of production: lower the rate, or set the kill switch.",
		SQL: "SELECT " + bucket("toDateTime(start)") + " AS time, toString(leg) AS leg, sum(ifNull(cost_gpu, 0)) AS `GPU time`, toFloat64(sum(ifNull(cost_bytes, 0))) AS bytes FROM replays FINAL WHERE " + instants("start") + " AND leg != ''" +
			only([2]string{"policy", "policy"}, [2]string{"model", "model"}) + " GROUP BY time, leg ORDER BY time, leg",
		Columns: []Column{at("time"), text("leg"), number("GPU time", "s"), number("bytes", "bytes")}, Empty: "No leg ran in this range."}
}

func estimators() Panel {
	source := "(SELECT * FROM verdicts FINAL WHERE target = 'window' AND window_from < " + until + " AND window_until > " + from + " AND model = '' AND tier = '' AND size_bucket = ''" + onlyLink +
		" ORDER BY at DESC, window_until DESC LIMIT 1 BY policy, link, pair_from, pair_to, lower(estimator))"
	return Panel{ID: 21, Kind: Table, Title: "Estimators side by side", W: 24, H: 9,
		Text: "AIPW is what verdicts use. Naive compares legs with decisions and is wrong where legs ran in another state; it is here to show by how much. Where AIPW, IPW and SNIPW differ by more than their intervals, trust none. Pareto k above 0.7: a few legs carry it. Regret is below 0 where what other parts of the range teach would have been faster than what was chosen.",
		SQL: "SELECT " + named("link") + " AS link, " + named("policy") + " AS policy, if(pair_from = '', 'all choices', concat(toString(pair_from), ' against ', toString(pair_to))) AS paths, estimator, estimate AS saved, lo AS low, hi AS high, toFloat64(legs) AS replays, ess AS ESS, max_weight AS `largest weight`, pareto_k AS `Pareto k`, reason FROM " + source +
			" ORDER BY link, policy, paths, estimator",
		Columns: []Column{text("link").opens(opensLink), text("policy"), text("paths"), text("estimator"), number("saved", "s"), number("low", "s"), number("high", "s"), number("replays", "short"), number("ESS", "short"), number("largest weight", "short"), number("Pareto k", "").steps(Step{-1e9, "text"}, Step{0.7, "orange"}), text("reason")},
		Empty:   noVerdict}
}
