-- What was said, when, of what and on what grounds: a row a verdict, never
-- changed. An empty scope column means all. Seconds; positive estimate: the
-- choice helped. lo and hi are NULL exactly where the verdict is unknown for
-- want of support. Read with FINAL.
CREATE TABLE IF NOT EXISTS verdicts
(
    at           DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    window_from  DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)), -- of the decisions
    window_until DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)), -- exclusive
    target       Enum8('window' = 1, 'next' = 2),         -- this window's requests, or the next hour's
    policy       LowCardinality(String),
    model        LowCardinality(String),
    tier         LowCardinality(String),
    link         LowCardinality(String),
    size_bucket  LowCardinality(String),                  -- its number as text; '' all
    pair_from    Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4),
    pair_to      Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4),
    estimator    LowCardinality(String),
    version      UInt32,

    verdict       Enum8('unknown' = 0, 'helps' = 1, 'hurts' = 2, 'even' = 3), -- even: the interval lies within the margin around 0
    estimate      Nullable(Float64),
    lo            Nullable(Float64),
    hi            Nullable(Float64),
    level         Float64,                                -- coverage of (lo, hi), such as 0.95
    n             UInt64,                                 -- decisions
    legs          UInt64,
    controls      UInt64,
    ess           Float64,                                -- effective sample size
    max_weight    Float64,
    pareto_k      Nullable(Float64),
    unknown_share Float64,                                -- of decisions in strata without support, 0 to 1
    reason        String,                                 -- for people: why unknown, or what to mind
    plan          LowCardinality(String),
    revision      Int64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (at, target, pair_from, pair_to, policy, model, tier, link, size_bucket, estimator)
TTL toDateTime(at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
