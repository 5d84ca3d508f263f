-- One movement of KV: a row a span. Contract spans that moved bytes have a row
-- too (origin contract), for their first and last byte are exact, so that the
-- overlaps on a link can be computed. Seconds, bytes, tokens. Read with FINAL.
CREATE TABLE IF NOT EXISTS transfers
(
    start     DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)), -- first byte; where that is not said, the span's start
    trace     FixedString(16) CODEC(NONE),
    span      UInt64 CODEC(NONE),
    id        FixedString(16) CODEC(ZSTD(1)),             -- of the request; zero bytes until it is joined
    origin    Enum8('contract' = 1, 'transfer' = 2, 'replay' = 3), -- contract span; transfer span; transfer span of a replay leg
    service   LowCardinality(String),
    adapter   LowCardinality(String),
    operation LowCardinality(String),                     -- load, store, lookup
    tier      Enum8('' = 0, 'gpu' = 1, 'cpu' = 2, 'disk' = 3, 'object' = 4, 'peer' = 5),
    source    LowCardinality(String),
    worker    LowCardinality(String),
    model     LowCardinality(String),
    link      LowCardinality(String),
    exact     UInt8,                                      -- 1: start is the first byte's
    tokens    Nullable(UInt32) CODEC(ZSTD(1)),
    bytes     Nullable(UInt64) CODEC(ZSTD(1)),
    queue     Nullable(Float32) CODEC(ZSTD(1)),           -- decision to first byte
    duration  Nullable(Float64) CODEC(ZSTD(1)),           -- first byte to last
    flows     Nullable(UInt32) CODEC(ZSTD(1)),            -- transfers on the link at the decision
    joined    UInt8,

    INDEX by_trace trace TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(joined)
PARTITION BY toDate(start)
ORDER BY (start, trace, span)
TTL toDateTime(start) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1
