-- The decisions of a minute that look worst, by predicted benefit shrunk to the
-- mean of their (policy, path): single requests are single draws, so these are
-- predictions and are to be labelled so. Made again with slices; read it with
-- the same filter on gen:
--   FROM worst FINAL WHERE minute >= a AND minute < b AND (minute, gen) IN
--     (SELECT minute, max(gen) FROM worst WHERE minute >= a AND minute < b GROUP BY minute)
CREATE TABLE IF NOT EXISTS worst
(
    minute      DateTime('UTC') CODEC(Delta, ZSTD(1)),
    rank        UInt8,                                    -- 1 is the worst
    gen         UInt64,
    id          FixedString(16),
    trace       FixedString(16),
    start       DateTime64(9, 'UTC'),
    policy      LowCardinality(String),
    model       LowCardinality(String),
    path        Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4),
    tier        Enum8('' = 0, 'gpu' = 1, 'cpu' = 2, 'disk' = 3, 'object' = 4, 'peer' = 5),
    link        LowCardinality(String),
    worker      LowCardinality(String),
    tokens_prefix Nullable(UInt32),
    bytes       Nullable(UInt64),
    ttft        Float32,
    alt_path    Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4),
    alt_ttft    Float32,                                  -- predicted
    benefit     Float32,                                  -- as in requests
    shrunk      Float32                                   -- towards the mean
)
ENGINE = ReplacingMergeTree(gen)
PARTITION BY toDate(minute)
ORDER BY (minute, rank)
TTL minute + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1
