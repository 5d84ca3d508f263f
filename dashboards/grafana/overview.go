package grafana

// Reasons that several panels share.
const (
	noRequests = "No request in this range and choice. Is load running, and is the range right? See 'What is known, and what is not'."
	noVerdict  = "No verdict in this range. kvwhatif verdict writes them; it needs replays."
	noContract = "No request here has a decision in its span. Coordinators must write kvreuse.request; engines alone cannot tell."
)

func overview() Dashboard {
	return Dashboard{
		UID: "kvwhatif-overview", Title: "kvwhatif: does reuse help",
		Text:      "Does reuse of KV cache help, hurt, or is it unknown; where; how sure; what to do.",
		Variables: []string{"link", "model", "policy", "path"},
		Panels: place(append(append([]Panel{
			verdictPanel(), savedPanel(), hurtPanel(), gpuSaved(),
			verdictsPanel(), missingPanel(),
			ttftPanel(), benefitOverTime(),
			row(10, "How far to trust it", "What the answers above rest on."),
		}, trustPanels()...), append([]Panel{
			row(20, "Where it helps, and where not", "By stage, model, path and size."),
			ladderPanel(), byModelPath(), bySize(), wrongDecisions(),
		}, enginePanels()...)...)...),
	}
}

func verdictPanel() Panel {
	return Panel{ID: 1, Kind: Stat, Title: "Verdict: fetching against computing again", W: 6, H: 5,
		Text: "The last verdict from replays on requests that were fetched. HURTS if it hurts on any link chosen; UNKNOWN if it is not known on one of them. Act on HURTS: open Paths and links, and see which link. UNKNOWN is no comfort: the table beneath says why.",
		SQL: "SELECT multiIf(count() = 0, 0, countIf(s = 1) > 0, 1, countIf(s = 0) > 0, 0, countIf(s = 2) > 0, 2, 3) AS verdict FROM (SELECT " + state +
			" AS s FROM " + headlines + " WHERE pair_from = 'fetch' AND pair_to = 'recompute')",
		Columns: []Column{{Name: "verdict", Type: "number", State: true}}, Empty: noVerdict}
}

func savedPanel() Panel {
	return Panel{ID: 2, Kind: Stat, Title: "Net TTFT saved a fetched request, measured", W: 8, H: 5,
		Text:    "Mean TTFT saved by fetching rather than computing again, from replays in this range, with its 95 % interval (between blocks of time) and the number of replays. Below zero: fetching made requests slower. An interval that covers zero does not tell. Effects on other requests are not in it.",
		SQL:     "SELECT value AS saved, value - half AS low, value + half AS high, legs AS replays FROM " + measured(""),
		Columns: []Column{number("saved", "s"), number("low", "s"), number("high", "s"), number("replays", "short")},
		Empty:   "Not measured: an interval needs 20 replays in 5 blocks of time. See Replays and coverage."}
}

func hurtPanel() Panel {
	return Panel{ID: 3, Kind: Stat, Title: "Requests hurt, predicted", W: 5, H: 5,
		Text:    "Share of requests whose path was slower than its alternative, by the cost model, of those where that can be said; beside it the share of the others where it cannot; requests whose prefix was resident are left out there, for many have nothing to be compared with. Single requests are single draws: act on the trend and on the verdict, not on one value.",
		SQL:     "SELECT " + ratio("sum(hurt)", known) + " AS hurt, " + ratio("sumIf(unknown, path != 'resident')", "sumIf(n, path != 'resident')") + " AS `not known` FROM " + slices(),
		Columns: []Column{number("hurt", "percentunit").steps(Step{0, "text"}, Step{0.2, "orange"}, Step{0.5, "red"}), number("not known", "percentunit")},
		Empty:   noRequests}
}

func gpuSaved() Panel {
	rate := "sumIf(sum_prefill, path = 'recompute') / sumIf(sum_tokens_prompt - sum_tokens_reused, path = 'recompute')"
	return Panel{ID: 4, Kind: Stat, Title: "GPU time saved, predicted", W: 5, H: 5,
		Text:    "Tokens that were reused, at the mean prefill time a token of requests that computed everything in the same range and choice. A prediction: long prompts cost more a token, so it errs to the low side. GPU time saved is no TTFT saved: a request can spare the GPU and still wait longer.",
		SQL:     "SELECT if(sumIf(n_stages, path = 'recompute') > 0 AND sumIf(sum_tokens_prompt - sum_tokens_reused, path = 'recompute') > 0, sum(sum_tokens_reused) * " + rate + ", NULL) AS `GPU time` FROM " + slices(),
		Columns: []Column{number("GPU time", "s")}, Empty: "No request here computed everything, so there is no rate to go by."}
}

func verdictsPanel() Panel {
	return Panel{ID: 5, Kind: Table, Title: "Verdicts by link", W: 14, H: 8,
		Text: "The last word on each link and pair of paths: saved is the mean TTFT that the path chosen saved against the other, with its interval. Act where verdict is HURTS. Where it is UNKNOWN, reason says what is lacking.",
		SQL: "SELECT " + state + " AS verdict, " + named("link") + " AS link, concat(toString(pair_from), ' against ', toString(pair_to)) AS paths, estimate AS saved, lo AS low, hi AS high, toFloat64(legs) AS replays, unknown_share AS `no support`, dateDiff('second', at, now()) AS age, if(reason = '' AND lo IS NULL, 'too little support', reason) AS reason FROM " +
			headlines + " ORDER BY pair_from = 'fetch' AND pair_to = 'recompute' DESC, verdict = 1 DESC, verdict = 0 DESC, link",
		Columns: []Column{{Name: "verdict", Type: "number", State: true}, text("link").opens(opensLink), text("paths"), number("saved", "s"), number("low", "s"), number("high", "s"), number("replays", "short"), number("no support", "percentunit"), number("age", "s"), text("reason")},
		Empty:   noVerdict}
}

func ttftPanel() Panel {
	return Panel{ID: 7, Kind: Lines, Title: "TTFT of reuse against none", W: 12, H: 8,
		Text: "Mean TTFT of requests that reused KV and whose alternative is known, and what the cost model says of that alternative. Where the first line is above the second, reuse costs. The second is a prediction; it holds the effect on others too, where prices are in force.",
		SQL: "SELECT " + bucket("minute") + " AS time, " + ratio("sum(sum_ttft)", "sum(n_ttft)") + " AS `as it was`, " + ratio("sum(sum_ttft)", "sum(n_ttft)") + " + " + ratio("sum(sum_benefit)", known) +
			" AS `without reuse, predicted` FROM " + slices() + " AND unknown = 0 AND path IN ('fetch', 'route', 'resident') GROUP BY time ORDER BY time",
		Columns: []Column{at("time"), number("as it was", "s"), number("without reuse, predicted", "s")}, Empty: noContract}
}

func benefitOverTime() Panel {
	return Panel{ID: 8, Kind: Lines, Title: "Net TTFT saved over time, predicted", W: 12, H: 8,
		Text: "Mean benefit of the path chosen, by the cost model, with its 95 % interval of independent requests. Annotations mark publications and rollbacks of coefficients, and drift. Act where the whole interval lies below zero for 15 minutes and the verdict agrees.",
		SQL: "SELECT " + bucket("minute") + " AS time, " + ratio("sum(sum_benefit)", known) + " AS saved, saved - " + predictedHalf + " AS low, saved + " + predictedHalf +
			" AS high FROM " + slices() + " GROUP BY time ORDER BY time",
		Columns: []Column{at("time"), number("saved", "s"), number("low", "s"), number("high", "s")}, Empty: noContract}
}
