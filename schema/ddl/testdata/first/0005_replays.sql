-- One leg of a replay: a row a leg span. Legs never enter requests. Seconds,
-- bytes, tokens. Read with FINAL.
CREATE TABLE IF NOT EXISTS replays
(
    start     DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)), -- of the leg
    end       DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    trace     FixedString(16) CODEC(NONE),                -- of the leg's own span
    span      UInt64 CODEC(NONE),
    id        FixedString(16) CODEC(NONE),                -- of the request replayed: requests.id
    of        FixedString(16) CODEC(ZSTD(1)),             -- its trace
    of_span   UInt64 CODEC(NONE),                         -- its anchor span
    service   LowCardinality(String),
    adapter   LowCardinality(String),
    request_id String CODEC(ZSTD(1)),

    plan      LowCardinality(String),
    path      Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4), -- that the leg ran
    candidate Nullable(Int16),                            -- index among the request's candidates
    inclusion Float64 CODEC(ZSTD(1)),                     -- probability with which this leg was drawn
    leg       Enum8('' = 0, 'rejected' = 1, 'control' = 2),
    batch     LowCardinality(String),                     -- legs run together share noise

    decision_gpu_queue Nullable(Float32) CODEC(ZSTD(1)),  -- load at the decision
    decision_flows     Nullable(UInt32) CODEC(ZSTD(1)),
    replay_gpu_queue   Nullable(Float32) CODEC(ZSTD(1)),  -- load at the replay
    replay_flows       Nullable(UInt32) CODEC(ZSTD(1)),
    model_decision     Nullable(Float64) CODEC(ZSTD(1)),  -- predicted ttft of path at the decision's state
    model_replay       Nullable(Float64) CODEC(ZSTD(1)),  -- and at the replay's
    cost_gpu           Nullable(Float64) CODEC(ZSTD(1)),  -- seconds charged to the budget
    cost_bytes         Nullable(UInt64) CODEC(ZSTD(1)),

    policy        LowCardinality(String),
    revision      Int64,
    model         LowCardinality(String),
    gpu           LowCardinality(String),
    worker        LowCardinality(String),
    source_worker LowCardinality(String),
    tier          Enum8('' = 0, 'gpu' = 1, 'cpu' = 2, 'disk' = 3, 'object' = 4, 'peer' = 5),
    link          LowCardinality(String),
    tokens_prompt Nullable(UInt32) CODEC(ZSTD(1)),
    tokens_prefix Nullable(UInt32) CODEC(ZSTD(1)),
    tokens_reused Nullable(UInt32) CODEC(ZSTD(1)),

    bytes          Nullable(UInt64) CODEC(ZSTD(1)),       -- observed on the leg, as in requests
    gpu_queue      Nullable(Float32) CODEC(ZSTD(1)),
    transfer_queue Nullable(Float32) CODEC(ZSTD(1)),
    transfer       Nullable(Float32) CODEC(ZSTD(1)),
    transfer_start Nullable(Float32) CODEC(ZSTD(1)),
    exposed_stall  Nullable(Float32) CODEC(ZSTD(1)),
    restore        Nullable(Float32) CODEC(ZSTD(1)),
    prefill        Nullable(Float32) CODEC(ZSTD(1)),
    ttft           Nullable(Float32) CODEC(ZSTD(1)),
    remainder      Nullable(Float32) CODEC(ZSTD(1)),

    INDEX by_id id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(start)
ORDER BY (start, trace, span)
TTL toDateTime(start) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1
