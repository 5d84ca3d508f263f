package grafana

import (
	"strconv"
	"strings"
)

// missingPanel says what the tables hold for this range, what they do not, and why
// that matters: the reason of every empty panel is here.
func missingPanel() Panel {
	k := 0
	line := func(what, count, lacking string) string {
		k++
		return "(" + strconv.Itoa(k) + ", '" + what + "', toFloat64(" + count + "), '" + lacking + "')"
	}
	sql := "SELECT t.2 AS what, t.3 AS found, if(t.3 > 0, '', t.4) AS lacking FROM (SELECT arrayJoin([" + strings.Join([]string{
		line("requests", "sum(n)", "nothing was loaded for this range and choice: every panel is empty. Check collect, Kafka and load"),
		line("requests with a decision", "sumIf(n, path != '')", "no coordinator writes kvreuse.request: no alternative is known, so no benefit and no verdict"),
		line("requests with a predicted alternative", "sum(n) - sum(unknown)", "spans name no second candidate or no TTFT: benefit is unknown, which is not zero"),
		line("requests with an engine span", "sum(n_engine)", "engines send no spans, or under other request ids: their own TTFT and cached tokens are missing"),
	}, ", ") + "]) AS t FROM " + slices()
	for _, each := range [][2]string{
		{line("replays that came back", "sum(legs)", "nothing is replayed: nothing is measured, and every verdict is UNKNOWN"), drawn},
		{line("verdicts", "count()", "kvwhatif verdict did not run for this range"), headlines},
		{line("coefficient documents", "count()", "nothing was ever published: coordinators decide by their fallback"), "coefficients"},
		{line("coordinators that said what they apply", "uniqExact(instance)", "no coordinator reports its status: whether coefficients are applied is not known"), "coordinator_status WHERE " + instants("at")},
	} {
		sql += " UNION ALL SELECT " + each[0] + " AS t FROM " + each[1]
	}
	return Panel{ID: 6, Kind: Table, Title: "What is known, and what is not", W: 10, H: 8,
		Text: "What this range and choice have in the tables. Where a line has nothing, it says which panels that leaves empty, and why. Begin here when a panel has no data.",
		SQL:  sql + ") ORDER BY t.1", Columns: []Column{text("what"), number("found", "short"), text("lacking")}, Empty: "The database did not answer."}
}

func trustPanels() []Panel {
	return []Panel{
		{ID: 11, Kind: Stat, Title: "Coverage", W: 5, H: 4,
			Text:    "Share of requests with a predicted alternative among those whose prefix was not resident, share with a decision at all, and share that was resident, of which many have nothing to be compared with. Below 80 % the means above are of the part that can be seen. Act: see which policy or path lacks its spans.",
			SQL:     "SELECT " + ratio(compared, comparable) + " AS predicted, " + ratio("sumIf(n, path != '')", "sum(n)") + " AS decided, " + ratio("sumIf(n, path = 'resident')", "sum(n)") + " AS resident FROM " + slices(),
			Columns: []Column{number("predicted", "percentunit").steps(Step{0, "red"}, Step{0.8, "text"}), number("decided", "percentunit").steps(Step{0, "red"}, Step{0.8, "text"}), number("resident", "percentunit")},
			Empty:   noRequests},
		{ID: 12, Kind: Stat, Title: "Age of the last verdict", W: 4, H: 4,
			Text:    "Since the last verdict of this range was written. Verdicts are of a past window: an old one says nothing of now. Act above an hour: is kvwhatif verdict running?",
			SQL:     "SELECT if(count() = 0, NULL, dateDiff('second', max(at), now())) AS age FROM " + headlines,
			Columns: []Column{number("age", "s").steps(Step{0, "text"}, Step{3600, "orange"})}, Empty: noVerdict},
		{ID: 13, Kind: Stat, Title: "Age of the last request", W: 4, H: 4,
			Text:    "Since the last minute that has a request. Act when it grows while there is traffic: load is behind or down.",
			SQL:     "SELECT if(count() = 0, NULL, dateDiff('second', max(minute), now())) AS age FROM " + slices(),
			Columns: []Column{number("age", "s").steps(Step{0, "text"}, Step{600, "orange"})}, Empty: noRequests},
		{ID: 14, Kind: Stat, Title: "Bias of predictions", W: 5, H: 4,
			Text:    "Observed less predicted TTFT of the path taken, as a share of TTFT, and the mean absolute error. Far from zero, the cost model is wrong and every predicted figure leans with it. Act above 10 % either way: Calibration.",
			SQL:     "SELECT " + ratio("sum(sum_error)", "sumIf(sum_ttft, n_predicted > 0)") + " AS bias, " + ratio("sum(sum_abs_error)", "sumIf(sum_ttft, n_predicted > 0)") + " AS error FROM " + slices(),
			Columns: []Column{number("bias", "percentunit").steps(Step{-1e9, "orange"}, Step{-0.1, "text"}, Step{0.1, "orange"}), number("error", "percentunit")}, Empty: noContract},
		{ID: 15, Kind: Stat, Title: "Support of verdicts", W: 6, H: 4,
			Text:    "The smallest effective sample size, the largest share of decisions without support, and the largest Pareto k among the verdicts of fetching. k above 0.7 means that a few replays carry the estimate. Act: replay more, or where k is high draw less unevenly.",
			SQL:     "SELECT if(count() = 0, NULL, min(ess)) AS ESS, if(count() = 0, NULL, max(unknown_share)) AS `no support`, if(count() = 0, NULL, max(pareto_k)) AS `Pareto k` FROM " + headlines + " WHERE pair_from = 'fetch' AND pair_to = 'recompute'",
			Columns: []Column{number("ESS", "short"), number("no support", "percentunit"), number("Pareto k", "").steps(Step{-1e9, "text"}, Step{0.7, "orange"})}, Empty: noVerdict},
	}
}

func ladderPanel() Panel {
	good := "sum_tokens_reused * if(n > unknown, (n - unknown) / n * (1 - hurt / (n - unknown)), 0)"
	return Panel{ID: 21, Kind: Bars, Title: "The ladder of reuse, tokens", W: 12, H: 9,
		Text: "Of the prefix tokens that lay somewhere in the fleet (available), those whose request was sent where they lie or to fetch them (routed), those that were really reused (delivered), and those on requests that were the faster for it, predicted (beneficial; a slice's share). What is neither beneficial nor known to hurt is unknown. A large step down from delivered to beneficial is reuse that costs.",
		SQL: "SELECT t.2 AS stage, t.3 AS tokens FROM (SELECT arrayJoin([(1, 'available', toFloat64(sum(sum_tokens_prefix))), (2, 'routed', sumIf(sum_tokens_prefix, path IN ('fetch', 'route', 'resident'))), (3, 'delivered', sum(sum_tokens_reused)), " +
			"(4, 'beneficial, predicted', sum(" + good + ")), (5, 'benefit unknown', sum(if(n > 0, sum_tokens_reused * unknown / n, 0)))]) AS t FROM " + slices() + ") ORDER BY t.1",
		Columns: []Column{text("stage"), number("tokens", "short")}, Empty: noRequests}
}

func byModelPath() Panel {
	return Panel{ID: 22, Kind: Table, Title: "Net TTFT saved by model and path", W: 12, H: 9,
		Text: "Mean benefit of each path against its usual alternative, predicted, with its 95 % interval, the sum over requests, and the shares hurt and unknown; measured and its bounds are from replays, of fetching only. Act on the largest negative sum. Empty: not known.",
		SQL: "SELECT model, path, requests, saved, low, high, total, hurt, `not known`, m.value AS measured, m.value - m.half AS `measured low`, m.value + m.half AS `measured high` FROM (SELECT " + named("model") + " AS model, " + named("toString(path)") + " AS path, toFloat64(sum(n)) AS requests, " +
			ratio("sum(sum_benefit)", known) + " AS saved, saved - " + predictedHalf + " AS low, saved + " + predictedHalf + " AS high, if(" + known + " > 0, sum(sum_benefit), NULL) AS total, " +
			ratio("sum(hurt)", known) + " AS hurt, " + ratio("sum(unknown)", "sum(n)") + " AS `not known` FROM " + slices() + " GROUP BY model, path) AS p LEFT JOIN " +
			"(SELECT " + named("model") + " AS model, 'fetch' AS path, toNullable(value) AS value, toNullable(half) AS half FROM " + measured("model, ") + ") AS m ON p.model = m.model AND p.path = m.path ORDER BY total ASC NULLS LAST",
		Columns: []Column{text("model"), text("path"), number("requests", "short"), number("saved", "s"), number("low", "s"), number("high", "s"), number("total", "s"), number("hurt", "percentunit"), number("not known", "percentunit"), number("measured", "s"), number("measured low", "s"), number("measured high", "s")},
		Empty:   noRequests}
}

func bySize() Panel {
	return Panel{ID: 23, Kind: Bars, Title: "Saved against tokens of the prefix (break-even where bars cross zero)", W: 12, H: 9,
		Text: "Mean benefit of fetching by length of the prefix, predicted with its interval. Short prefixes often cost more to fetch than to compute. The break-even is the first length from which the low bound stays above zero: let coordinators fetch from there on.",
		SQL: "SELECT " + size + " AS tokens, " + ratio("sum(sum_benefit)", known) + " AS saved, saved - " + predictedHalf + " AS low, saved + " + predictedHalf + " AS high FROM " + slices() +
			" AND path = 'fetch' GROUP BY size_bucket ORDER BY size_bucket",
		Columns: []Column{text("tokens"), number("saved", "s"), number("low", "s"), number("high", "s")}, Empty: "No request was fetched in this range and choice."}
}

func wrongDecisions() Panel {
	return Panel{ID: 24, Kind: Table, Title: "Decisions that look wrong, predicted", W: 12, H: 9,
		Text: "The decisions of the range with the largest predicted regret, drawn towards the mean of their minute, policy and path. A click on a trace opens the request. Each is a single draw: look for what many of them share (a link, a worker, a size), not at one.",
		SQL: "SELECT toDateTime(start) AS time, lower(hex(trace)) AS trace, " + named("link") + " AS link, toString(path) AS took, toString(alt_path) AS instead, toFloat64(-shrunk) AS regret, toFloat64(ttft) AS ttft, toFloat64(alt_ttft) AS predicted, toFloat64(tokens_prefix) AS prefix, policy, model FROM " +
			rollup("worst") + onlyWorst + " AND shrunk < 0 ORDER BY regret DESC LIMIT 50",
		Columns: []Column{at("time"), text("trace").opens(opensRequest), text("link").opens(opensLink), text("took"), text("instead"), number("regret", "s"), number("ttft", "s"), number("predicted", "s"), number("prefix", "short"), text("policy"), text("model")},
		Empty:   "No decision of this range looks wrong, or none has a predicted alternative: see coverage."}
}

// enginePanels are what a fleet sees that has no spans of coordinators.
func enginePanels() []Panel {
	return []Panel{
		row(30, "From engines alone", "What spans of engines carry without a coordinator's."),
		{ID: 31, Kind: Text, Title: "What engines can tell, and what not", W: 8, H: 8,
			Text: "**Engines alone can tell** requests, their own TTFT, and with LMCache what moved.\n\n**They cannot tell** whether reuse helped: that needs the path not taken, and an engine knows only the one that ran. So verdict, net TTFT saved, requests hurt and wrong decisions stay UNKNOWN, which is not zero.\n\n**To know more**, have the coordinator write one `kvreuse.request` span a request, and run replays."},
		{ID: 32, Kind: Stat, Title: "Requests that an engine's span has joined", W: 4, H: 8,
			Text:    "Requests with an engine's span, and their share. A share that falls means that engines' spans no longer find their requests: check request ids.",
			SQL:     "SELECT toFloat64(sum(n_engine)) AS requests, " + ratio("sum(n_engine)", "sum(n)") + " AS share FROM " + slices(),
			Columns: []Column{number("requests", "short"), number("share", "percentunit")}, Empty: "No engine sends spans, or under other request ids."},
		{ID: 33, Kind: Lines, Title: "TTFT that engines report", W: 12, H: 8, MayBeEmpty: true,
			Text: "Mean TTFT by engines' own spans, from arrival at the engine. It has neither the coordinator's queue nor the wait for a transfer before the engine saw the request, so it may be shorter than TTFT above.",
			SQL: "SELECT " + bucket("minute") + " AS time, " + named("model") + " AS model, " + ratio("sum(sum_engine_ttft)", "sum(n_engine)") + " AS ttft FROM " + slices() +
				" AND n_engine > 0 GROUP BY time, model ORDER BY time, model",
			Columns: []Column{at("time"), text("model"), number("ttft", "s")}, Empty: "No engine sends spans, or under other request ids."},
	}
}
