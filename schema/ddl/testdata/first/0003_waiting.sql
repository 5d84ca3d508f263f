-- Engine and transfer parts whose request has not come yet. The sweep joins
-- them; after a day they become rows of requests of kind orphan. done = 1
-- removes a row (FINAL does not show it).
CREATE TABLE IF NOT EXISTS waiting
(
    day        Date,                                     -- of the span's start
    trace      FixedString(16),
    span       UInt64,
    parent     UInt64,
    request_id String CODEC(ZSTD(1)),
    part       String CODEC(ZSTD(1)),                    -- the part as on the wire (schema/wire/parts.proto)
    arrived    DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)), -- by the clock of load
    version    UInt64,                                   -- Unix nanoseconds of the last word on it
    done       UInt8
)
ENGINE = ReplacingMergeTree(version, done)
PARTITION BY day
ORDER BY (day, trace, span)
TTL toDateTime(arrived) + INTERVAL 7 DAY
SETTINGS ttl_only_drop_parts = 0
