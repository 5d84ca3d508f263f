-- Requests as they were decided and how long they took, for the gate; missing
-- numbers are NaN, a missing revision is 0.
SELECT
    toUnixTimestamp64Nano(start) AS at, revision, toString(path) AS path_name, model, gpu, toString(tier) AS tier_name, link,
    ifNull(toInt64(tokens_prefix), 0) AS prefix,
    ifNull(toFloat64(tokens_prompt), nan) AS prompt,
    ifNull(toFloat64(tokens_reused), nan) AS reused,
    ifNull(toFloat64(bytes), 0) AS moved,
    if(ifNull(chosen, 255) < length(`candidate.gpu_queue`), toFloat64(`candidate.gpu_queue`[ifNull(chosen, 0) + 1]), nan) AS reported,
    ifNull(toFloat64(link_flows), 0) AS flows,
    ifNull(toFloat64(ttft), nan) AS took
FROM requests FINAL
WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano(toInt64(@from), 'UTC')) AND minute < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND start >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC') AND start < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND kind = 'contract'
  AND (empty(@policies) OR has(@policies, policy))
  AND (empty(@services) OR has(@services, service))
ORDER BY at
SETTINGS do_not_merge_across_partitions_select_final = 1
