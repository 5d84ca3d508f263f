-- Each decision of a window, with the fullest fetch that was open to it, taken or
-- not, and the recompute of the same prompt on the same worker (without one, the
-- first recompute). fetch is 0 where there was none. The link is the bottleneck.
WITH
    arrayEnumerate(`candidate.path`) AS at,
    arraySort(i -> -`candidate.bytes`[i], arrayFilter(i -> `candidate.path`[i] = 'fetch' AND `candidate.bytes`[i] > 0, at))[1] AS f,
    arrayFirst(i -> `candidate.path`[i] = 'recompute' AND `candidate.worker`[i] = `candidate.worker`[f], at) AS beside,
    if(beside > 0, beside, arrayFirst(i -> `candidate.path`[i] = 'recompute', at)) AS r
SELECT
    toUInt32(if(r > 0, f, 0)) AS fetch, service,
    toString(`candidate.tier`[f]) AS tier_name, splitByChar('+', `candidate.links`[f])[1] AS link_name,
    toFloat64(`candidate.bytes`[f]) AS size,
    toFloat64(`candidate.recompute`[r]) AS whole,
    toFloat64(`candidate.recompute`[f]) AS suffix,
    toFloat64(`candidate.gpu_queue`[r]) AS queue,
    toFloat64(`candidate.externality`[r]) AS imposed
FROM requests FINAL
WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano(toInt64(@from), 'UTC')) AND minute < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND start >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC') AND start < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND kind = 'contract'
  AND (empty(@policies) OR has(@policies, policy))
  AND (empty(@services) OR has(@services, service))
SETTINGS do_not_merge_across_partitions_select_final = 1
