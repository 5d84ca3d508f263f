-- The rollup that panels read: a row a minute and slice, made again from
-- requests whenever a minute was touched. gen is the number of spans in the
-- whole minute on its shard, so it grows with every part that comes, and the rows
-- of the largest gen are the shard's minute. Read it only so, or a request that
-- moved to another slice is counted twice (GLOBAL matters on several shards only):
--   FROM slices FINAL WHERE minute >= a AND minute < b AND (shard, minute, gen) GLOBAL IN
--     (SELECT shard, minute, max(gen) FROM slices WHERE minute >= a AND minute < b GROUP BY shard, minute)
-- Sums are over the requests where the value is known; each has its count.
CREATE TABLE IF NOT EXISTS slices
(
    minute      DateTime('UTC') CODEC(Delta, ZSTD(1)),
    policy      LowCardinality(String),
    model       LowCardinality(String),                  -- the contract span's, else the engine's
    path        Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4),
    tier        Enum8('' = 0, 'gpu' = 1, 'cpu' = 2, 'disk' = 3, 'object' = 4, 'peer' = 5),
    link        LowCardinality(String),
    size_bucket Int8,                                    -- schema.SizeBucket of tokens_prefix; -1 unknown
    gen         UInt64 CODEC(ZSTD(1)),
    shard       UInt16 CODEC(ZSTD(1)),                   -- from 0, whose rows these are

    n         UInt64 CODEC(T64, ZSTD(1)),                -- requests; orphans are not among them
    hurt      UInt64 CODEC(T64, ZSTD(1)),                -- predicted benefit below 0
    unknown   UInt64 CODEC(T64, ZSTD(1)),                -- benefit not known
    orphans   UInt64 CODEC(T64, ZSTD(1)),                -- parts that no anchor came for
    conflicts UInt64 CODEC(T64, ZSTD(1)),                -- requests of which a span came with two contents

    sum_benefit  Float64 CODEC(ZSTD(1)),                 -- over n - unknown
    sum_benefit2 Float64 CODEC(ZSTD(1)),

    n_ttft       UInt64 CODEC(T64, ZSTD(1)),             -- ttft known
    sum_ttft     Float64 CODEC(ZSTD(1)),
    sum_ttft2    Float64 CODEC(ZSTD(1)),
    n_stages     UInt64 CODEC(T64, ZSTD(1)),             -- ttft and a stage known: the five sums add up to sum_ttft_stages
    sum_ttft_stages    Float64 CODEC(ZSTD(1)),
    sum_gpu_queue      Float64 CODEC(ZSTD(1)),
    sum_exposed_stall  Float64 CODEC(ZSTD(1)),
    sum_restore        Float64 CODEC(ZSTD(1)),
    sum_prefill        Float64 CODEC(ZSTD(1)),
    sum_remainder      Float64 CODEC(ZSTD(1)),
    n_transfer         UInt64 CODEC(T64, ZSTD(1)),       -- transfer known
    sum_transfer_queue Float64 CODEC(ZSTD(1)),
    sum_transfer       Float64 CODEC(ZSTD(1)),
    n_predicted        UInt64 CODEC(T64, ZSTD(1)),       -- ttft of the choice both predicted and observed
    sum_error          Float64 CODEC(ZSTD(1)),           -- observed - predicted
    sum_abs_error      Float64 CODEC(ZSTD(1)),
    sum_externality    Float64 CODEC(ZSTD(1)),
    sum_bytes          Float64 CODEC(ZSTD(1)),           -- the contract span's
    sum_moved          Float64 CODEC(ZSTD(1)),           -- the transfer spans', loads only
    sum_tokens_prompt  Float64 CODEC(ZSTD(1)),
    sum_tokens_prefix  Float64 CODEC(ZSTD(1)),
    sum_tokens_reused  Float64 CODEC(ZSTD(1)),
    n_engine           UInt64 CODEC(T64, ZSTD(1)),       -- requests that an engine's span joined
    sum_engine_ttft    Float64 CODEC(ZSTD(1)),

    -- Bucket i (from 1) holds ttft in (0.001*2^((i-2)/8), 0.001*2^((i-1)/8)]; the
    -- first also all below 1 ms, the last (129) all above 2^(127/8) ms = 60 s.
    ttft_hist Array(UInt32) CODEC(ZSTD(1)),
    computed  DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(gen)
PARTITION BY toDate(minute)
ORDER BY (minute, policy, model, path, tier, link, size_bucket)
TTL minute + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
