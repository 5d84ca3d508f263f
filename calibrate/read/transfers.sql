-- Movements that no request's own span tells of, by first byte: transfer spans of
-- requests whose contract span did not say what it moved on that link (or never
-- came), and legs of replays. A leg is told of by its replay span or, where that
-- moved nothing, by a transfer span of its trace. Under a filter, a movement counts
-- if the request that it belongs to passes it. Stores are left out: they go the
-- other way. Subqueries are GLOBAL, for what they give is of all shards.
WITH
    fromUnixTimestamp64Nano(toInt64(@from), 'UTC') AS since,
    fromUnixTimestamp64Nano(toInt64(@until), 'UTC') AS till,
    empty(@policies) AND empty(@services) AS everybody,
    kept AS
    (
        SELECT id
        FROM requests
        WHERE minute >= toStartOfMinute(since) - INTERVAL 1 DAY AND minute < till
          AND kind = 'contract'
          AND (empty(@policies) OR has(@policies, policy)) AND (empty(@services) OR has(@services, service))
          AND id GLOBAL IN
          (
              SELECT id FROM replays WHERE start >= since - INTERVAL 1 HOUR AND start < till
              UNION ALL
              SELECT id FROM transfers WHERE start >= since AND start < till AND origin = 'transfer'
          )
    )
SELECT toString(tier) AS tier_name, link, concat(source, '>', worker) AS pair, toUnixTimestamp64Nano(start) AS first,
    ifNull(toFloat64(queue), nan) AS waited, ifNull(duration, nan) AS wire, ifNull(toFloat64(bytes), nan) AS moved
FROM transfers FINAL
WHERE start >= since AND start < till AND link != '' AND bytes > 0 AND duration > 0
  AND
  (
      origin = 'transfer' AND operation IN ('load', '')
      AND (everybody OR id GLOBAL IN (SELECT id FROM kept))
      AND (id, link) GLOBAL NOT IN
      (
          SELECT id, link FROM requests FINAL
          WHERE minute >= toStartOfMinute(since) - INTERVAL 10 MINUTE AND minute < till AND kind = 'contract' AND bytes > 0 AND isNotNull(transfer)
      )
      OR origin = 'replay' AND operation IN ('load', '')
      AND (everybody OR trace GLOBAL IN (SELECT trace FROM replays WHERE start >= since - INTERVAL 1 HOUR AND start < till AND id GLOBAL IN (SELECT id FROM kept)))
      AND trace GLOBAL NOT IN (SELECT trace FROM replays WHERE start >= since - INTERVAL 1 HOUR AND start < till AND bytes > 0 AND isNotNull(transfer))
  )
UNION ALL
SELECT toString(tier), link, concat(source_worker, '>', worker), toUnixTimestamp64Nano(start) + toInt64(ifNull(transfer_start, 0) * 1e9) AS first_byte,
    ifNull(toFloat64(transfer_queue), nan), ifNull(toFloat64(transfer), nan), ifNull(toFloat64(bytes), nan)
FROM replays FINAL
WHERE start >= since - INTERVAL 1 HOUR AND start < till AND link != '' AND bytes > 0 AND transfer > 0
  AND first_byte >= @from AND first_byte < @until
  AND (everybody OR id GLOBAL IN (SELECT id FROM kept))
