package grafana

import "strings"

// Tokens of a panel's SQL, which a datasource replaces by macros of its own.
const (
	from  = "{{from}}"  // instant at which the range begins
	until = "{{until}}" // and ends
	step  = "{{step}}"  // seconds between points of a series
)

// None is what the empty value of a label is shown as and filtered by.
const None = "(none)"

// named shows an empty label as None.
func named(expr string) string { return "if(" + expr + " = '', '" + None + "', " + expr + ")" }

// only limits rows to the values chosen on the dashboard. Each pair is a variable and
// the column that it is of. All is the value '*', quotes included.
func only(pairs ...[2]string) string {
	var b strings.Builder
	for _, p := range pairs {
		v := "${" + p[0] + ":singlequote}"
		b.WriteString(" AND ('*' IN (" + v + ") OR " + named(p[1]) + " IN (" + v + "))")
	}
	return b.String()
}

// The filters, by table.
var (
	onlySlices    = only([2]string{"policy", "policy"}, [2]string{"model", "model"}, [2]string{"link", "link"}, [2]string{"path", "toString(path)"})
	onlyWorst     = onlySlices
	onlyEstimates = only([2]string{"policy", "policy"}, [2]string{"model", "model"}, [2]string{"link", "link"}, [2]string{"path", "toString(pair_from)"})
	onlyLink      = only([2]string{"link", "link"})
)

// minutes limits a column that is the start of a minute.
func minutes(column string) string {
	return column + " >= toStartOfMinute(" + from + ") AND " + column + " < " + until
}

// instants limits a column that is an instant.
func instants(column string) string {
	return column + " >= " + from + " AND " + column + " < " + until
}

// rollup is slices or worst, with the filter on gen that every reader needs, up to
// its WHERE; it holds over shards too.
func rollup(table string) string {
	in := minutes("minute")
	return table + " FINAL WHERE " + in + " AND (shard, minute, gen) GLOBAL IN (SELECT shard, minute, max(gen) FROM " +
		table + " WHERE " + in + " GROUP BY shard, minute)"
}

// slices are the rows of the rollup that the dashboard's choice leaves.
func slices() string { return rollup("slices") + onlySlices }

// bucket is the time of a point of a series.
func bucket(column string) string {
	return "toStartOfInterval(" + column + ", toIntervalSecond(greatest(60, " + step + ")))"
}

// ratio is a/b as a number, NULL where b is 0.
func ratio(a, b string) string { return "if(" + b + " > 0, (" + a + ") / (" + b + "), NULL)" }

// known is the number of requests whose benefit is known.
const known = "(sum(n) - sum(unknown))"

// compared of comparable requests have a known benefit: those of which the prefix was
// resident often have no alternative at all, which is no gap.
const (
	compared   = "sumIf(n - unknown, path != 'resident')"
	comparable = "sumIf(n, path != 'resident')"
)

// halfWidth is half of the 95 % interval of the mean of k independent values with
// these sums; NULL below 30, where the normal quantile would be too narrow.
func halfWidth(k, sum, sum2 string) string {
	return "if(" + k + " >= 30, 1.96 * sqrt(greatest(0, " + sum2 + " / " + k + " - pow(" + sum + " / " + k + ", 2)) / (" + k + " - 1)), NULL)"
}

var predictedHalf = halfWidth(known, "sum(sum_benefit)", "sum(sum_benefit2)")

// studentT is the two-sided 95 % quantile of Student's t: Abramowitz and Stegun
// 26.7.5 around 1.959964, 0.3 % low at 4 degrees of freedom and better above.
func studentT(df string) string {
	return "(1.959964 + 2.372271 / (" + df + ") + 2.8225 / pow(" + df + ", 2) + 2.555852 / pow(" + df + ", 3))"
}

// measured is, by the labels given, the mean benefit of fetching rather than computing
// again that replays measured: columns n (decisions), legs, value, half. Its variance
// is that between blocks of time, and that of the correction. Below 20 replays or 5
// blocks there is no interval, so value and half are NULL. labels is "" or ends in a
// comma.
func measured(labels string) string {
	k := "count()"
	mean := "sum(s) / sum(m)"
	spread := "(sum(s * s) - 2 * (" + mean + ") * sum(s * m) + pow(" + mean + ", 2) * sum(m * m)) / pow(sum(m), 2) * " + k + " / (" + k + " - 1) + max(dv)"
	enough := "sum(l) >= 20 AND count() >= 5"
	group := ""
	names := strings.TrimSuffix(strings.TrimSpace(labels), ",")
	if names != "" {
		group = " GROUP BY " + names
	}
	return "(SELECT " + labels + " sum(m) AS n, sum(l) AS legs, if(" + enough + ", " + mean + ", NULL) AS value, if(" + enough + ", " + studentT(k+" - 1") + " * sqrt(greatest(0, " + spread + ")), NULL) AS half FROM (SELECT " +
		inner(names) + " block, toFloat64(sumIf(n, reason = '')) AS m, toFloat64(sumIf(legs, reason = '')) AS l, sumIf(sum_phi, reason = '') AS s, max(ifNull(delta_var, 0)) AS dv FROM estimates FINAL WHERE lower(estimator) = 'aipw' AND pair_from = 'fetch' AND pair_to = 'recompute' AND " +
		minutes("block") + onlyEstimates + " GROUP BY " + inner(names) + " block HAVING m > 0)" + group + ")"
}

// inner puts labels before another column.
func inner(names string) string {
	if names == "" {
		return ""
	}
	return names + ","
}

// headlines are the last verdicts of all requests, by link and ordered pair: of all
// policies, and by policy only where none is of all of them.
var headlines = "(SELECT * FROM (SELECT *, countIf(policy = '') OVER () AS overall FROM (SELECT * FROM verdicts FINAL WHERE target = 'window' AND window_from < " + until +
	" AND window_until > " + from + " AND lower(estimator) = 'aipw' AND model = '' AND tier = '' AND size_bucket = ''" + onlyLink +
	" ORDER BY at DESC, window_until DESC LIMIT 1 BY policy, link, pair_from, pair_to)) WHERE overall = 0 OR policy = '')"

// state is a verdict's number of states; one without an interval is unknown.
const state = "if(lo IS NULL OR hi IS NULL, 0, multiIf(verdict = 'hurts', 1, verdict = 'even', 2, verdict = 'helps', 3, 0))"

// size names a size bucket.
const size = "multiIf(size_bucket < 0, 'not said', size_bucket = 0, '512 or fewer', size_bucket = 1, '513 to 2,048', size_bucket = 2, '2,049 to 8,192', size_bucket = 3, '8,193 to 32,768', 'over 32,768')"

// quantile is a quantile of TTFT over some rows of slices, from their histogram.
func quantile(q string) string {
	h := "arrayCumSum(sumForEach(ttft_hist))"
	return "if(sum(n_ttft) > 0, 0.001 * pow(2, (arrayFirstIndex(x -> x >= " + q + " * " + h + "[-1], " + h + ") - 1) / 8), NULL)"
}
