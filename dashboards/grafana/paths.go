package grafana

func paths() Dashboard {
	return Dashboard{
		UID: "kvwhatif-paths", Title: "kvwhatif: paths and links",
		Text:      "Where the time of each path goes, and what crosses the links that they share.",
		Variables: []string{"link", "model", "policy", "path"},
		Panels: place(
			row(1, "Paths", "Fetch, recompute, route, resident."),
			stagesPanel(), stagesOverTime(), traffic(), tails(),
			row(10, "Shared links", "What crossed each link, and what waiting for it cost."),
			linksPanel(), linkBytes(), linkStall(), linkSpeed(),
		),
	}
}

const stages = "sum(sum_gpu_queue) / k AS `GPU queue`, sum(sum_exposed_stall) / k AS stall, sum(sum_restore) / k AS restore, sum(sum_prefill) / k AS prefill, sum(sum_remainder) / k AS remainder"

func stageColumns() []Column {
	return []Column{number("GPU queue", "s"), number("stall", "s"), number("restore", "s"), number("prefill", "s"), number("remainder", "s")}
}

func stagesPanel() Panel {
	return Panel{ID: 2, Kind: Table, Title: "Where the mean TTFT went, by path and link", W: 24, H: 7,
		Text: "Means over requests that say their stages; the five stages add up to TTFT. stall is only that part of a transfer that its GPU queue did not hide. Act where stall is most of a fetch: the link is the bottleneck. A large remainder means stages that no span tells.",
		SQL: "SELECT path, link, requests, ttft, p50, p95, p99, `GPU queue`, stall, restore, prefill, remainder FROM (SELECT " + named("toString(path)") + " AS path, " + named("link") + " AS link, toFloat64(sum(n_stages)) AS requests, sum(sum_ttft_stages) / requests AS ttft, " +
			quantile("0.5") + " AS p50, " + quantile("0.95") + " AS p95, " + quantile("0.99") + " AS p99, sum(n_stages) AS k, " + stages + " FROM " + slices() + " GROUP BY path, link HAVING k > 0) ORDER BY path, link",
		Columns: append([]Column{text("path"), text("link"), number("requests", "short"), number("ttft", "s"), number("p50", "s"), number("p95", "s"), number("p99", "s")}, stageColumns()...),
		Empty:   "No request here says its stages, and so where its time went."}
}

func stagesOverTime() Panel {
	return Panel{ID: 3, Kind: Area, Title: "Stages of TTFT over time", W: 12, H: 8,
		Text:    "Mean stages of all requests chosen, stacked up to TTFT. Choose a path above to see one alone. Act when stall or GPU queue grows while prefill does not: the fleet waits rather than computes.",
		SQL:     "SELECT time, `GPU queue`, stall, restore, prefill, remainder FROM (SELECT " + bucket("minute") + " AS time, sum(n_stages) AS k, " + stages + " FROM " + slices() + " GROUP BY time HAVING k > 0) ORDER BY time",
		Columns: append([]Column{at("time")}, stageColumns()...), Empty: "No request here says its stages."}
}

func traffic() Panel {
	return Panel{ID: 4, Kind: Area, Title: "Requests a second, by path", W: 12, H: 8,
		Text:    "What coordinators chose. A sudden change without an annotation of a publication is a change of policy or of traffic. (none): no coordinator's span.",
		SQL:     "SELECT " + bucket("minute") + " AS time, " + named("toString(path)") + " AS path, sum(n) / greatest(60, " + step + ") AS requests FROM " + slices() + " GROUP BY time, path ORDER BY time, path",
		Columns: []Column{at("time"), text("path"), number("requests", "reqps")}, Empty: noRequests}
}

func tails() Panel {
	return Panel{ID: 5, Kind: Lines, Title: "95th percentile of TTFT, by path", W: 24, H: 7,
		Text:    "From histograms with bounds 9 % apart. Means hide what few requests suffer: act where fetch rises above recompute here, even if its mean does not.",
		SQL:     "SELECT " + bucket("minute") + " AS time, " + named("toString(path)") + " AS path, " + quantile("0.95") + " AS p95 FROM " + slices() + " GROUP BY time, path ORDER BY time, path",
		Columns: []Column{at("time"), text("path"), number("p95", "s")}, Empty: noRequests}
}

// lastDocument is the newest coefficient document's JSON.
const lastDocument = "(SELECT payload FROM coefficients FINAL ORDER BY revision DESC, created DESC LIMIT 1)"

// laws are the transfer laws of the newest document, a row each.
const laws = "(SELECT JSONExtractString(t, 'link') AS link, JSONExtractString(t, 'tier') AS tier, t FROM " + lastDocument + " ARRAY JOIN JSONExtractArrayRaw(payload, 'transfer') AS t)"

// prices are its prices, a row a link.
const prices = "(SELECT JSONExtractString(l, 'link') AS link, toNullable(JSONExtractFloat(l, 'price', 'load')) AS load FROM " + lastDocument + " ARRAY JOIN JSONExtractArrayRaw(payload, 'links') AS l)"

func linksPanel() Panel {
	return Panel{ID: 11, Kind: Table, Title: "Links", W: 24, H: 7,
		Text: "Of the requests that name a link: what they moved, how fast a single transfer was, what waiting cost. load is the eligible demand as a share of the link's rate at the last price, not its present use: above 0.9 the link cannot carry all that could be fetched. Act there: let coordinators follow prices, or recompute short prefixes.",
		SQL: "SELECT s.link AS link, requests, bytes, rate, speed, queue, transfer, stall, saved, load FROM (SELECT link, toFloat64(sum(n)) AS requests, sum(sum_bytes) AS bytes, sum(sum_bytes) / greatest(1, dateDiff('second', " + from + ", " + until + ")) AS rate, " +
			ratio("sum(sum_bytes)", "sum(sum_transfer)") + " AS speed, " + ratio("sum(sum_transfer_queue)", "sum(n_transfer)") + " AS queue, " + ratio("sum(sum_transfer)", "sum(n_transfer)") + " AS transfer, " +
			ratio("sum(sum_exposed_stall)", "sum(n_stages)") + " AS stall, " + ratio("sum(sum_benefit)", known) + " AS saved FROM " + slices() + " AND link != '' GROUP BY link) AS s LEFT JOIN " + prices + " AS p ON s.link = p.link ORDER BY bytes DESC",
		Columns: []Column{text("link"), number("requests", "short"), number("bytes", "bytes"), number("rate", "Bps"), number("speed", "Bps"), number("queue", "s"), number("transfer", "s"), number("stall", "s"), number("saved", "s"), number("load", "percentunit").steps(Step{0, "text"}, Step{0.9, "red"})},
		Empty:   "No request here names a link: nothing was moved, or spans do not say over what."}
}

func linkSeries(id uint32, title, says, unit, expr string) Panel {
	return Panel{ID: id, Kind: Lines, Title: title, W: 8, H: 8, Text: says,
		SQL:     "SELECT " + bucket("minute") + " AS time, link, " + expr + " AS value FROM " + slices() + " AND link != '' GROUP BY time, link ORDER BY time, link",
		Columns: []Column{at("time"), text("link"), number("value", unit)}, Empty: "No request here names a link."}
}

func linkBytes() Panel {
	return linkSeries(12, "Bytes a second, by link", "What coordinators' spans say was moved. It has no traffic of others on the link. Act when it nears the rate that the link has.", "Bps",
		"sum(sum_bytes) / greatest(60, "+step+")")
}

func linkStall() Panel {
	return linkSeries(13, "Mean exposed stall, by link", "What waiting for the link added to TTFT. Act when it rises with bytes: transfers share the link, and each further one delays all.", "s",
		ratio("sum(sum_exposed_stall)", "sum(n_stages)"))
}

func linkSpeed() Panel {
	return linkSeries(14, "Speed of a transfer, by link", "Bytes over the time from first byte to last. It halves where two share the link, so a fall with rising bytes is sharing; a fall without it is a fault of the link.", "Bps",
		ratio("sum(sum_bytes)", "sum(sum_transfer)"))
}
