package grafana

const noDocument = "No document was ever published: coordinators decide by their fallback. kvwhatif calibrate publishes."

func calibration() Dashboard {
	return Dashboard{
		UID: "kvwhatif-calibration", Title: "kvwhatif: calibration",
		Text:      "Which coefficients are in force, how well they predict, and who applies them.",
		Variables: []string{"link", "model", "policy", "path"},
		Panels: place(
			inForce(), coordinators(),
			errorOverTime(), errorBy(),
			row(20, "Laws in force", "Of the newest document."),
			transferLaws(), prefillLaws(), linkPrices(),
			row(30, "History", "What was published, newest first."),
			published(),
		),
	}
}

func inForce() Panel {
	return Panel{ID: 1, Kind: Stat, Title: "In force", W: 10, H: 7,
		Text:    "The newest document: its revision, its age, and how long until it expires. At expiry clients drop prices at once and laws after 15 minutes. Act when it expires soon: calibrate does not run, or its challengers fail and nobody renews.",
		SQL:     "SELECT toFloat64(revision) AS revision, toFloat64(dateDiff('second', created, now64(9))) AS age, JSONExtractInt(payload, 'expires_unix_nanos') / 1e9 - toUnixTimestamp(now()) AS `expires in` FROM coefficients FINAL ORDER BY coefficients.revision DESC, created DESC LIMIT 1",
		Columns: []Column{number("revision", "none"), number("age", "s"), number("expires in", "s").steps(Step{-1e12, "red"}, Step{0, "orange"}, Step{3600, "text"})}, Empty: noDocument}
}

func coordinators() Panel {
	return Panel{ID: 2, Kind: Table, Title: "What coordinators apply", W: 14, H: 7, MayBeEmpty: true,
		Text:    "The last word of each coordinator. Act where applied is no: reason says why it refused, and it decides by older coefficients or its fallback.",
		SQL:     "SELECT instance, toFloat64(argMax(revision, at)) AS revision, if(argMax(applied, at), 'yes', 'no') AS applied, argMax(reason, at) AS reason, toFloat64(dateDiff('second', max(at), now64(9))) AS age FROM (SELECT * FROM coordinator_status FINAL WHERE " + instants("at") + ") GROUP BY instance ORDER BY applied, instance",
		Columns: []Column{text("instance"), number("revision", "none"), text("applied"), text("reason"), number("age", "s")},
		Empty:   "No coordinator said what it applies in this range: it is not known whether coefficients are applied."}
}

const (
	bias     = "sum(sum_error) / sum(n_predicted)"
	absolute = "sum(sum_abs_error) / sum(n_predicted)"
)

func errorOverTime() Panel {
	return Panel{ID: 3, Kind: Lines, Title: "Error of predictions over time", W: 12, H: 8,
		Text:    "Observed less predicted TTFT of the path taken (bias), and its mean size. A bias that leaves zero and stays is drift: a link or a model changed. Act: calibrate again; see the annotations for when it began.",
		SQL:     "SELECT " + bucket("minute") + " AS time, " + bias + " AS bias, " + absolute + " AS error FROM " + slices() + " AND n_predicted > 0 GROUP BY time ORDER BY time",
		Columns: []Column{at("time"), number("bias", "s"), number("error", "s")}, Empty: noContract}
}

func errorBy() Panel {
	return Panel{ID: 4, Kind: Table, Title: "Error by model, path and link", W: 12, H: 8,
		Text: "Where predictions lean: bias as a share of TTFT. Act on the largest with many requests. A bias on one link alone is that link's law; on one model, its prefill law.",
		SQL: "SELECT " + named("model") + " AS model, " + named("toString(path)") + " AS path, " + named("link") + " AS link, toFloat64(sum(n_predicted)) AS requests, " + bias + " AS bias, " + absolute + " AS error, " + ratio("sum(sum_error)", "sum(sum_ttft)") + " AS relative FROM " + slices() +
			" AND n_predicted > 0 GROUP BY model, path, link ORDER BY abs(bias) * requests DESC",
		Columns: []Column{text("model"), text("path"), text("link").opens(opensLink), number("requests", "short"), number("bias", "s"), number("error", "s"), number("relative", "percentunit").steps(Step{-1e9, "orange"}, Step{-0.1, "text"}, Step{0.1, "orange"})}, Empty: noContract}
}

func transferLaws() Panel {
	return Panel{ID: 21, Kind: Table, Title: "Transfers", W: 12, H: 7,
		Text:    "Of each link and tier: how many transfers the law was fitted to, its error on later ones, the error that no law could beat, and the largest transfer and concurrency seen. Beyond those the fallback answers.",
		SQL:     "SELECT link, tier, JSONExtractFloat(t, 'law', 't0') AS fixed, JSONExtractFloat(t, 'quality', 'n') AS n, JSONExtractFloat(t, 'quality', 'mean_relative_error') AS error, JSONExtractFloat(t, 'quality', 'repeat_noise') AS noise, JSONExtractFloat(t, 'quality', 'max_bytes') AS `largest`, JSONExtractFloat(t, 'quality', 'max_concurrent') AS concurrent FROM " + laws + " ORDER BY link, tier",
		Columns: []Column{text("link"), text("tier"), number("fixed", "s"), number("n", "short"), number("error", "percentunit").steps(Step{0, "text"}, Step{0.2, "orange"}), number("noise", "percentunit"), number("largest", "bytes"), number("concurrent", "short")}, Empty: noDocument}
}

func prefillLaws() Panel {
	return Panel{ID: 22, Kind: Table, Title: "Prefill", W: 12, H: 7,
		Text: "Of each model and GPU: seconds a token and a token squared, requests it was fitted to, its error on later ones, and the longest context seen. Beyond it the fallback answers.",
		SQL: "SELECT JSONExtractString(p, 'model') AS model, JSONExtractString(p, 'gpu') AS gpu, JSONExtractFloat(p, 'law', 'c1') AS linear, JSONExtractFloat(p, 'law', 'c2') AS quadratic, JSONExtractFloat(p, 'quality', 'n') AS n, JSONExtractFloat(p, 'quality', 'mean_relative_error') AS error, JSONExtractFloat(p, 'quality', 'max_tokens') AS longest FROM " + lastDocument +
			" ARRAY JOIN JSONExtractArrayRaw(payload, 'prefill') AS p ORDER BY model, gpu",
		Columns: []Column{text("model"), text("gpu"), number("linear", "s"), number("quadratic", "sci"), number("n", "short"), number("error", "percentunit").steps(Step{0, "text"}, Step{0.2, "orange"}), number("longest", "short")}, Empty: noDocument}
}

func linkPrices() Panel {
	return Panel{ID: 23, Kind: Table, Title: "Prices of links", W: 24, H: 6, MayBeEmpty: true,
		Text: "What a fetch on the link is charged for delaying others, from eligible demand. load above 0.9: demand nears the link's rate. An old price steers by a state that is past: act when age grows, is serve running?",
		SQL: "SELECT JSONExtractString(l, 'link') AS link, JSONExtractFloat(l, 'price', 'load') AS load, JSONExtractFloat(l, 'price', 'mean_bytes') AS `mean bytes`, JSONExtractFloat(l, 'demand') AS demand, toUnixTimestamp(now()) - JSONExtractInt(l, 'as_of_unix_nanos') / 1e9 AS age FROM " + lastDocument +
			" ARRAY JOIN JSONExtractArrayRaw(payload, 'links') AS l ORDER BY link",
		Columns: []Column{text("link"), number("load", "percentunit").steps(Step{0, "text"}, Step{0.9, "red"}), number("mean bytes", "bytes"), number("demand", "short"), number("age", "s")}, Empty: "No link has a price: nothing was eligible, or serve does not run."}
}

func published() Panel {
	return Panel{ID: 31, Kind: Table, Title: "Published documents", W: 24, H: 8,
		Text:    "Newest first, with why each was published. A revision whose previous is not the one before it is a rollback. Refreshes of prices say prices.",
		SQL:     "SELECT toDateTime(created) AS time, toFloat64(revision) AS revision, toFloat64(JSONExtractInt(payload, 'previous')) AS previous, JSONExtractFloat(payload, 'fit', 'n') AS requests, if(note = '', '(no note)', note) AS note FROM coefficients FINAL ORDER BY coefficients.revision DESC, created DESC LIMIT 100",
		Columns: []Column{at("time"), number("revision", "none"), number("previous", "none"), number("requests", "short"), text("note")}, Empty: noDocument}
}
