-- One read of requests gives both the sums and gen, so that they are of the same
-- state of the table. %d is the shard, %s the list
-- of minutes.
INSERT INTO slices
(
    minute, policy, model, path, tier, link, size_bucket, gen, shard,
    n, hurt, unknown, orphans, conflicts, sum_benefit, sum_benefit2,
    n_ttft, sum_ttft, sum_ttft2, n_stages, sum_ttft_stages,
    sum_gpu_queue, sum_exposed_stall, sum_restore, sum_prefill, sum_remainder,
    n_transfer, sum_transfer_queue, sum_transfer, n_predicted, sum_error, sum_abs_error,
    sum_externality, sum_bytes, sum_moved, sum_tokens_prompt, sum_tokens_prefix, sum_tokens_reused,
    n_engine, sum_engine_ttft, ttft_hist
)
SELECT
    minute, policy, slice_model, path, tier, link, bucket, sum(slice_spans) OVER (PARTITION BY minute), %d,
    n, hurt, unknown, orphans, conflicts, sum_benefit, sum_benefit2,
    n_ttft, sum_ttft, sum_ttft2, n_stages, sum_ttft_stages,
    sum_gpu_queue, sum_exposed_stall, sum_restore, sum_prefill, sum_remainder,
    n_transfer, sum_transfer_queue, sum_transfer, n_predicted, sum_error, sum_abs_error,
    sum_externality, sum_bytes, sum_moved, sum_tokens_prompt, sum_tokens_prefix, sum_tokens_reused,
    n_engine, sum_engine_ttft, arrayMap(i -> toUInt32(hist[toUInt8(i)]), range(1, 130))
FROM
(
    SELECT
        minute, policy, if(r.model = '', engine_model, r.model) AS slice_model, path, tier, link,
        multiIf(tokens_prefix IS NULL, -1, tokens_prefix <= 512, 0, tokens_prefix <= 2048, 1,
                tokens_prefix <= 8192, 2, tokens_prefix <= 32768, 3, 4) AS bucket,
        sum(length(spans)) AS slice_spans,
        countIf(kind != 'orphan') AS n,
        countIf(known_benefit < 0) AS hurt,
        countIf(kind != 'orphan' AND known_benefit IS NULL) AS unknown,
        countIf(kind = 'orphan') AS orphans,
        countIf(length(contents) > length(spans)) AS conflicts,
        ifNull(sum(toFloat64(known_benefit)), 0) AS sum_benefit,
        ifNull(sum(pow(toFloat64(known_benefit), 2)), 0) AS sum_benefit2,
        count(ttft) AS n_ttft,
        ifNull(sum(toFloat64(ttft)), 0) AS sum_ttft,
        ifNull(sum(pow(toFloat64(ttft), 2)), 0) AS sum_ttft2,
        count(remainder) AS n_stages,
        sumIf(toFloat64(ifNull(ttft, 0)), remainder IS NOT NULL) AS sum_ttft_stages,
        sumIf(toFloat64(ifNull(gpu_queue, 0)), remainder IS NOT NULL) AS sum_gpu_queue,
        sumIf(toFloat64(ifNull(exposed_stall, 0)), remainder IS NOT NULL) AS sum_exposed_stall,
        sumIf(toFloat64(ifNull(restore, 0)), remainder IS NOT NULL) AS sum_restore,
        sumIf(toFloat64(ifNull(prefill, 0)), remainder IS NOT NULL) AS sum_prefill,
        ifNull(sum(toFloat64(remainder)), 0) AS sum_remainder,
        count(transfer) AS n_transfer,
        sumIf(toFloat64(ifNull(transfer_queue, 0)), transfer IS NOT NULL) AS sum_transfer_queue,
        ifNull(sum(toFloat64(transfer)), 0) AS sum_transfer,
        count(error) AS n_predicted,
        ifNull(sum(error), 0) AS sum_error,
        ifNull(sum(abs(error)), 0) AS sum_abs_error,
        ifNull(sum(toFloat64(externality)), 0) AS sum_externality,
        ifNull(sum(toFloat64(bytes)), 0) AS sum_bytes,
        sum(toFloat64(arraySum(mapValues(moved)))) AS sum_moved,
        ifNull(sum(toFloat64(tokens_prompt)), 0) AS sum_tokens_prompt,
        ifNull(sum(toFloat64(tokens_prefix)), 0) AS sum_tokens_prefix,
        ifNull(sum(toFloat64(tokens_reused)), 0) AS sum_tokens_reused,
        countIf(engine_start > toDateTime64(0, 9)) AS n_engine,
        ifNull(sum(toFloat64(engine_ttft)), 0) AS sum_engine_ttft,
        sumMapIf(map(toUInt8(least(129, toInt32(ceil(log2(greatest(ifNull(ttft, 0), 0.001) / 0.001) * 8)) + 1)), toUInt32(1)), ttft IS NOT NULL) AS hist
    FROM
    (
        SELECT
            *,
            alt_ttft + alt_externality - ttft - externality AS known_benefit,
            `candidate.ttft`[chosen + 1] AS own_ttft,
            if(isNaN(own_ttft) OR chosen + 1 > length(`candidate.ttft`), NULL, toFloat64(ttft) - own_ttft) AS error
        FROM requests FINAL
        WHERE minute IN (%s)
    ) AS r
    GROUP BY minute, policy, slice_model, path, tier, link, bucket
)
