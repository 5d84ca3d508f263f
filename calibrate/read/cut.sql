-- When the given share of a window's requests had been decided, Unix nanoseconds,
-- and how many requests it has.
SELECT toInt64(quantileExact(@share)(toUnixTimestamp64Nano(start))), count()
FROM requests FINAL
WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano(toInt64(@from), 'UTC')) AND minute < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND start >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC') AND start < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND kind = 'contract'
  AND (empty(@policies) OR has(@policies, policy))
  AND (empty(@services) OR has(@services, service))
SETTINGS do_not_merge_across_partitions_select_final = 1
