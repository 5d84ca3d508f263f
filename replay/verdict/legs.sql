-- Legs of the decisions of a window. They start after their decision.
SELECT
    id, toInt8(path) AS path_number, toInt8(leg) AS leg_number, plan, inclusion, batch,
    ifNull(toFloat64(ttft), nan) AS y,
    ifNull(model_decision, nan) AS at_decision,
    ifNull(model_replay, nan) AS at_replay
FROM replays FINAL
WHERE start >= fromUnixTimestamp64Nano({from:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({legs_until:Int64}, 'UTC')
  AND id GLOBAL IN
  (
      SELECT id FROM requests
      WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano({from:Int64}, 'UTC')) AND minute < fromUnixTimestamp64Nano({until:Int64}, 'UTC')
  )
ORDER BY start, trace, span
SETTINGS do_not_merge_across_partitions_select_final = 1
