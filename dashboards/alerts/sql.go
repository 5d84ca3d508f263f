package alerts

import "strings"

// now is the instant at which a query is asked. Every range ends there, so that a
// query asked of an earlier instant answers as it did then.
const now = "{{now}}"

// At is an alert's SQL asked at an instant, an expression of SQL.
func (a Alert) At(instant string) string { return strings.ReplaceAll(a.SQL, now, instant) }

// missedRuns is how many intervals between runs may pass: two, and what jitter and the
// run itself take.
const missedRuns = 2.25

// netBenefit is the upper end of the interval of the last verdict on fetched requests
// against recomputing, seconds. A verdict of over half an hour ago says nothing of now.
const netBenefit = `SELECT if(link = '', 'all links', link) AS on_link, if(policy = '', 'all policies', policy) AS by_policy,
  if(at >= ` + now + ` - INTERVAL 30 MINUTE AND lo IS NOT NULL, hi, NULL) AS value
FROM (
  SELECT * FROM verdicts FINAL
  WHERE target = 'window' AND lower(estimator) = 'aipw' AND pair_from = 'fetch' AND pair_to = 'recompute'
    AND model = '' AND tier = '' AND size_bucket = '' AND at > ` + now + ` - INTERVAL 1 DAY AND at <= ` + now + `
  ORDER BY at DESC, window_until DESC LIMIT 1 BY policy, link
)
ORDER BY on_link, by_policy`

// last quarter of an hour of whole minutes.
const quarter = "minute >= toStartOfMinute(" + now + ") - INTERVAL 15 MINUTE AND minute < toStartOfMinute(" + now + ")"

// recent are the rollup's rows of it that count.
const recent = "slices FINAL WHERE " + quarter + " AND (shard, minute, gen) GLOBAL IN (SELECT shard, minute, max(gen) FROM slices WHERE " + quarter + " GROUP BY shard, minute)"

// decisionCoverage is the share of requests whose benefit is predicted.
const decisionCoverage = `SELECT if(requests > 0, 1 - missing / requests, NULL) AS value
FROM (SELECT toFloat64(sum(n)) AS requests, toFloat64(sum(unknown)) AS missing FROM ` + recent + `)`

// replayCoverage is the share of the replays drawn that came back, over two hours of
// decisions. Verdicts leave out decisions whose replays may still run.
const replayCoverage = `SELECT if(drawn >= 20, back / drawn, NULL) AS value
FROM (
  SELECT toFloat64(sum(planned)) AS drawn, toFloat64(sum(legs)) AS back
  FROM estimates FINAL WHERE lower(estimator) = 'aipw' AND block > ` + now + ` - INTERVAL 2 HOUR AND block <= ` + now + `
)`

const document = "ifNull((SELECT payload FROM coefficients FINAL WHERE created <= " + now + " ORDER BY revision DESC, created DESC LIMIT 1), '')"

// moving limits transfers to the last five minutes.
const moving = "start > " + now + " - INTERVAL 5 MINUTE AND start <= " + now

// linkLoad is what crossed a link by what it was fitted to carry. A link without a
// fitted law has no load that is known; where no request came at all, none has.
const linkLoad = `SELECT link, if(b > 0 AND arrived, moved / 300 / b, NULL) AS value
FROM (
  SELECT link, max(capacity) AS b, sum(bytes) AS moved
  FROM (
    SELECT JSONExtractString(x, 'link') AS link, JSONExtractFloat(x, 'law', 'link', 'b') AS capacity, toFloat64(0) AS bytes
    FROM (SELECT arrayJoin(JSONExtractArrayRaw(` + document + `, 'transfer')) AS x)
    UNION ALL
    SELECT toString(t.link) AS link, toFloat64(0) AS capacity, toFloat64(sum(ifNull(t.bytes, 0))) AS bytes
    FROM transfers AS t FINAL
    WHERE ` + moving + ` AND origin != 'replay' AND operation != 'store' AND link != ''
      AND origin = if((SELECT countIf(origin = 'contract') FROM transfers WHERE ` + moving + `) > 0, 'contract', 'transfer')
    GROUP BY link
  )
  GROUP BY link
) AS l CROSS JOIN (
  SELECT (SELECT count() FROM transfers WHERE ` + moving + `) + (SELECT sum(n) FROM ` + recent + `) > 0 AS arrived
) AS a
ORDER BY link`

// coefficientsLeft is how long the newest document still holds, seconds.
const coefficientsLeft = `SELECT JSONExtractInt(payload, 'expires_unix_nanos') / 1e9 - toFloat64(` + now + `) AS value
FROM coefficients FINAL WHERE created <= ` + now + `
ORDER BY revision DESC, created DESC LIMIT 1`

// calibrationAge is how many times the interval between two calibrations has passed
// since laws were last published or confirmed. Prices and rollbacks are no calibration.
const calibrationAge = `SELECT (toFloat64(` + now + `) - JSONExtractInt(payload, 'created_unix_nanos') / 1e9)
  / greatest(1, (JSONExtractInt(payload, 'refresh_after_unix_nanos') - JSONExtractInt(payload, 'created_unix_nanos')) / 1e9) AS value
FROM coefficients FINAL WHERE created <= ` + now + ` AND note != 'prices' AND NOT startsWith(note, 'rollback')
ORDER BY revision DESC, created DESC LIMIT 1`

// predictionLean is how far observed TTFT is from predicted, by path and link, as a
// share of TTFT; of fewer than 100 requests it is not known.
const predictionLean = `SELECT if(p = '', '(none)', p) AS on_path, if(link = '', '(none)', link) AS on_link,
  if(k >= 100 AND observed > 0, abs(lean) / observed, NULL) AS value
FROM (
  SELECT toString(path) AS p, link, sum(n_predicted) AS k, sum(sum_error) AS lean, sum(sum_ttft) AS observed
  FROM ` + recent + ` AND n_predicted > 0
  GROUP BY p, link
)
ORDER BY on_path, on_link`

// coordinatorRefusals is 1 of a coordinator whose last word was a refusal, 0 of
// another; of one that was silent for six hours it is not known.
const coordinatorRefusals = `SELECT instance, if(at > ` + now + ` - INTERVAL 6 HOUR, toFloat64(NOT applied), NULL) AS value
FROM (
  SELECT * FROM coordinator_status FINAL WHERE at > ` + now + ` - INTERVAL 1 DAY AND at <= ` + now + `
  ORDER BY at DESC LIMIT 1 BY instance
)
ORDER BY instance`

// newestMinute is how long ago the newest minute of the rollups ended, seconds.
const newestMinute = `SELECT if(k > 0, toFloat64(` + now + `) - toFloat64(newest) - 60, NULL) AS value
FROM (SELECT count() AS k, max(minute) AS newest FROM slices WHERE minute > ` + now + ` - INTERVAL 7 DAY AND minute <= ` + now + `)`
