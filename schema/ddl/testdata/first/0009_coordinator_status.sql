-- What coordinators said of the documents they were given.
CREATE TABLE IF NOT EXISTS coordinator_status
(
    at       DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    instance String,
    revision UInt64,
    applied  Bool,
    reason   String                                       -- why not
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (instance, at, revision)
TTL toDateTime(at) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1
