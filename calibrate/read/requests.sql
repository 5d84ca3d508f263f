-- What requests observed on the path that ran; missing numbers are NaN, and a
-- missing revision is 0. The window is of decisions, and begins earlier than the
-- caller's by the lead in which a transfer may have waited for its first byte.
SELECT
    toUnixTimestamp64Nano(start) AS at, revision, model, gpu, toString(tier) AS tier_name, link,
    concat(source_worker, '>', worker) AS pair,
    ifNull(toFloat64(tokens_prompt), nan) AS prompt,
    ifNull(toFloat64(tokens_reused), nan) AS reused,
    ifNull(toFloat64(bytes), nan) AS moved,
    ifNull(toFloat64(gpu_queue), nan) AS waited,
    ifNull(toFloat64(transfer_queue), nan) AS queue,
    ifNull(toFloat64(transfer), nan) AS wire,
    ifNull(toFloat64(transfer_start), nan) AS first,
    ifNull(toFloat64(exposed_stall), nan) AS stall,
    ifNull(toFloat64(restore), nan) AS restored,
    ifNull(toFloat64(prefill), nan) AS computing,
    if(ifNull(chosen, 255) < length(`candidate.gpu_queue`), toFloat64(`candidate.gpu_queue`[ifNull(chosen, 0) + 1]), nan) AS reported
FROM requests FINAL
WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano(toInt64(@from), 'UTC') - INTERVAL 2 MINUTE) AND minute < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND start >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC') - INTERVAL 2 MINUTE AND start < fromUnixTimestamp64Nano(toInt64(@until), 'UTC')
  AND kind = 'contract'
  AND (empty(@policies) OR has(@policies, policy))
  AND (empty(@services) OR has(@services, service))
SETTINGS do_not_merge_across_partitions_select_final = 1
