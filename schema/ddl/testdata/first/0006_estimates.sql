-- What replays say of the path not taken, as sums, so that any range has its
-- mean and interval by SQL: with N = sum(n) and m = sum(sum_phi)/N, the variance
-- of the mean over blocks comes from the blocks' own sum_phi. A row a block of
-- time, ordered pair and slice; the newest estimate of it stays. Read with FINAL.
CREATE TABLE IF NOT EXISTS estimates
(
    block         DateTime('UTC') CODEC(Delta, ZSTD(1)),  -- start of the block of decisions
    block_seconds UInt32,
    pair_from     Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4), -- a: path that was chosen
    pair_to       Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4), -- b: theta = E[Y(b) - Y(a) | A = a]
    estimator     LowCardinality(String),                 -- aipw, naive, ipw, snipw
    policy        LowCardinality(String),
    model         LowCardinality(String),
    tier          LowCardinality(String),
    link          LowCardinality(String),
    size_bucket   Int8,                                   -- -1: unknown
    version       UInt32,                                 -- of the estimator's definition
    revision      Int64,                                  -- of the coefficients behind the predictions
    plan          LowCardinality(String),

    n        UInt64,                                      -- decisions of path a in the block that the sums are of
    unknown  UInt64,                                      -- further ones, of which nothing can be said: never count them as 0
    legs     UInt64,                                      -- rejected legs of path b that came back
    planned  UInt64,                                      -- that were drawn
    controls UInt64,                                      -- control legs behind the correction of b
    sum_phi  Float64,                                     -- seconds, over n
    sum_phi2 Float64,
    sum_var  Float64,                                     -- design variance: sum of R(1-pi)/pi^2 (y - m)^2, seconds^2
    sum_weight  Float64,                                  -- of 1/pi over legs
    sum_weight2 Float64,
    max_weight  Float64,
    delta       Nullable(Float64),                        -- correction subtracted, seconds
    delta_var   Nullable(Float64),
    reason      LowCardinality(String),                   -- not empty: too little support, and why
    computed    DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(computed)
PARTITION BY toYYYYMM(block)
ORDER BY (block, pair_from, pair_to, estimator, policy, model, tier, link, size_bucket)
TTL block + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
