-- Decisions of a window, newest state of each, as the sampler saw them. The
-- scope's link and tier are matched loosely here and exactly by the reader. Of a
-- candidate's worker only whether it is the chosen one's matters.
SELECT
    id, trace, spans, toUnixTimestamp64Nano(start) AS at, policy, revision,
    if(model = '', engine_model, model) AS any_model, toInt8(tier) AS tier_number, link, toInt8(path) AS path_number,
    toInt64(ifNull(chosen, -1)) AS choice,
    ifNull(toInt64(tokens_prefix), -1) AS prefix,
    ifNull(toInt64(link_flows), -1) AS flows,
    ifNull(toInt64(worker_active), -1) AS active,
    ifNull(toFloat64(ttft), nan) AS y,
    CAST(`candidate.path`, 'Array(Int8)') AS candidate_path,
    arrayMap(w -> toInt8(w = `candidate.worker`[choice + 1]), `candidate.worker`) AS candidate_local,
    CAST(`candidate.tier`, 'Array(Int8)') AS candidate_tier,
    arrayMap(l -> splitByChar('+', l)[1], `candidate.links`) AS candidate_link,
    `candidate.ttft` AS candidate_ttft,
    `candidate.externality` AS candidate_externality
FROM requests FINAL
WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano({from:Int64}, 'UTC')) AND minute < fromUnixTimestamp64Nano({until:Int64}, 'UTC')
  AND start >= fromUnixTimestamp64Nano({from:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({until:Int64}, 'UTC')
  AND kind = 'contract'
  AND ({policy:String} = '' OR policy = {policy:String})
  AND ({model:String} = '' OR any_model = {model:String})
  AND ({service:String} = '' OR service = {service:String})
  AND ({tier:String} = '' OR toString(tier) = {tier:String} OR has(arrayMap(t -> toString(t), `candidate.tier`), {tier:String}))
  AND ({link:String} = '' OR link = {link:String} OR has(candidate_link, {link:String}))
LIMIT {limit:UInt64}
SETTINGS do_not_merge_across_partitions_select_final = 1
