-- The mean benefit and its interval over any range of estimates, of any slice:
-- a row. Parameters: from and until as DateTime, pair_from and pair_to ('' for
-- all), policy, model, tier, link, size_bucket ('' for all, else its number), z
-- (normal quantile: 1.959964 for 95 %), min_legs and min_blocks (20 and 5).
-- The variance is over blocks of time; to it comes that of the correction, which
-- blocks share. Student's quantile is expanded in 1/(blocks - 1) (Abramowitz and
-- Stegun 26.7.5). Where there is too little, mean, lo and hi are NULL and reason
-- says why; unknown decisions are in none of the sums.
WITH
    blocks - 1 AS df,
    {z:Float64} AS z,
    z + (pow(z, 3) + z) / (4 * df)
      + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * pow(df, 2))
      + (3 * pow(z, 7) + 19 * pow(z, 5) + 17 * pow(z, 3) - 15 * z) / (384 * pow(df, 3)) AS t,
    sum_phi / n AS estimate,
    greatest(0, sum_s2 - 2 * estimate * sum_sn + estimate * estimate * sum_n2) / pow(n, 2) * blocks / df AS between,
    sqrt(between + pow(sum_delta / n, 2)) AS error,
    multiIf(n = 0, 'nothing is known of these decisions', legs < {min_legs:UInt64}, 'too few legs', '') AS reason_mean,
    multiIf(reason_mean != '', reason_mean, blocks < {min_blocks:UInt64}, 'too few blocks of time for an interval', '') AS reason_interval
SELECT
    if(reason_mean = '', estimate, NULL) AS mean,
    if(reason_interval = '', error, NULL) AS se,
    if(reason_interval = '', estimate - t * error, NULL) AS lo,
    if(reason_interval = '', estimate + t * error, NULL) AS hi,
    toUInt64(n) AS decisions, toUInt64(unknown) AS without_answer, toUInt64(legs) AS legs_back, toUInt64(blocks) AS blocks_of_time,
    reason_interval AS reason
FROM
(
    SELECT
        toFloat64(countIf(s_n > 0)) AS blocks,
        toFloat64(sum(s_n)) AS n, sum(s_unknown) AS unknown, sum(s_legs) AS legs,
        sum(s_phi) AS sum_phi, sum(s_phi * s_phi) AS sum_s2, sum(s_phi * s_n) AS sum_sn, sum(s_n * s_n) AS sum_n2, sum(s_delta) AS sum_delta
    FROM
    (
        SELECT
            block, toFloat64(sum(e.n)) AS s_n, sum(e.unknown) AS s_unknown, sum(e.legs) AS s_legs, sum(e.sum_phi) AS s_phi,
            sum(e.n * sqrt(ifNull(e.delta_var, 0))) AS s_delta
        FROM estimates AS e FINAL
        WHERE block >= {from:DateTime('UTC')} AND block < {until:DateTime('UTC')} AND estimator = 'aipw'
          AND ({pair_from:String} = '' OR toString(pair_from) = {pair_from:String})
          AND ({pair_to:String} = '' OR toString(pair_to) = {pair_to:String})
          AND ({policy:String} = '' OR policy = {policy:String})
          AND ({model:String} = '' OR model = {model:String})
          AND ({tier:String} = '' OR tier = {tier:String})
          AND ({link:String} = '' OR link = {link:String})
          AND ({size_bucket:String} = '' OR toString(size_bucket) = {size_bucket:String})
        GROUP BY block
    )
)
