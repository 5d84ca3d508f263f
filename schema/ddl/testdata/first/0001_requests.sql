-- One row a request, merged by key from the parts of it that came, in any order
-- and any number of times. Each column has one owner (schema/FORMAT.md): the
-- contract span, the engine's span, or a transfer; max then only fills what is
-- empty. Whatever may be negative or unknown is Nullable. Read with FINAL.
-- Seconds, bytes, tokens.
CREATE TABLE IF NOT EXISTS requests
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),        -- start of the anchor span, never of arrival
    id     FixedString(16) CODEC(NONE),                  -- schema.NewRowID(trace, anchor span)
    trace  SimpleAggregateFunction(max, FixedString(16)) CODEC(NONE),
    spans  SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) CODEC(ZSTD(1)), -- which spans are in
    contents SimpleAggregateFunction(groupUniqArrayArray, Array(UInt32)) CODEC(ZSTD(1)), -- hashes of what they said: more than spans is a conflict
    kind   SimpleAggregateFunction(max, Enum8('' = 0, 'orphan' = 1, 'engine' = 2, 'contract' = 3)), -- of the anchor

    start      SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    service    SimpleAggregateFunction(max, LowCardinality(String)),
    adapter    SimpleAggregateFunction(max, LowCardinality(String)),
    policy     SimpleAggregateFunction(max, LowCardinality(String)),
    revision   SimpleAggregateFunction(max, Int64) CODEC(Delta, ZSTD(1)),
    tenant     SimpleAggregateFunction(max, LowCardinality(String)),
    request_id SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    path       SimpleAggregateFunction(max, Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4)) CODEC(ZSTD(1)),
    chosen     SimpleAggregateFunction(max, Nullable(UInt8)) CODEC(ZSTD(1)),
    model      SimpleAggregateFunction(max, LowCardinality(String)),
    gpu        SimpleAggregateFunction(max, LowCardinality(String)),
    worker     SimpleAggregateFunction(max, LowCardinality(String)),
    source_worker SimpleAggregateFunction(max, LowCardinality(String)),
    tier       SimpleAggregateFunction(max, Enum8('' = 0, 'gpu' = 1, 'cpu' = 2, 'disk' = 3, 'object' = 4, 'peer' = 5)) CODEC(ZSTD(1)),
    link       SimpleAggregateFunction(max, LowCardinality(String)),

    tokens_prompt SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    tokens_prefix SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    tokens_reused SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    link_flows    SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    worker_active SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    state_age     SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),

    bytes          SimpleAggregateFunction(max, Nullable(UInt64)) CODEC(ZSTD(1)),
    gpu_queue      SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    transfer_queue SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    transfer       SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    transfer_start SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)), -- after start
    exposed_stall  SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    restore        SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    prefill        SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    ttft           SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    remainder      SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)), -- ttft less its stages

    `candidate.path`   SimpleAggregateFunction(max, Array(Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4))) CODEC(ZSTD(1)),
    `candidate.worker` SimpleAggregateFunction(max, Array(String)) CODEC(ZSTD(1)),
    `candidate.source` SimpleAggregateFunction(max, Array(String)) CODEC(ZSTD(1)),
    `candidate.tier`   SimpleAggregateFunction(max, Array(Enum8('' = 0, 'gpu' = 1, 'cpu' = 2, 'disk' = 3, 'object' = 4, 'peer' = 5))) CODEC(ZSTD(1)),
    `candidate.links`  SimpleAggregateFunction(max, Array(String)) CODEC(ZSTD(1)), -- joined by '+', the bottleneck first
    `candidate.tokens_resident` SimpleAggregateFunction(max, Array(Int32)) CODEC(ZSTD(1)), -- -1: not applicable
    `candidate.tokens_fetched`  SimpleAggregateFunction(max, Array(Int32)) CODEC(ZSTD(1)),
    `candidate.tokens_computed` SimpleAggregateFunction(max, Array(Int32)) CODEC(ZSTD(1)),
    `candidate.bytes`           SimpleAggregateFunction(max, Array(Int64)) CODEC(ZSTD(1)),
    `candidate.gpu_queue`       SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)), -- NaN: not applicable
    `candidate.transfer_queue`  SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)),
    `candidate.bandwidth`       SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)), -- bytes/s
    `candidate.restore`         SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)),
    `candidate.recompute`       SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)),
    `candidate.ttft`            SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)),
    `candidate.externality`     SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)),
    `candidate.propensity`      SimpleAggregateFunction(max, Array(Float32)) CODEC(ZSTD(1)),

    alt_path        SimpleAggregateFunction(max, Enum8('' = 0, 'fetch' = 1, 'recompute' = 2, 'route' = 3, 'resident' = 4)) CODEC(ZSTD(1)),
    alt_ttft        SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)), -- predicted, of schema.Decision.Alternative
    alt_externality SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)), -- one that is not applicable counts as 0
    externality     SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)), -- of the choice, likewise

    engine_service       SimpleAggregateFunction(max, LowCardinality(String)),
    engine_adapter       SimpleAggregateFunction(max, LowCardinality(String)),
    engine_request_id    SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    engine_start         SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    engine_model         SimpleAggregateFunction(max, LowCardinality(String)),
    engine_tokens_prompt SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    engine_tokens_cached SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    engine_tokens_output SimpleAggregateFunction(max, Nullable(UInt32)) CODEC(ZSTD(1)),
    engine_queue         SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    engine_prefill       SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    engine_decode        SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    engine_ttft          SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),
    engine_e2e           SimpleAggregateFunction(max, Nullable(Float32)) CODEC(ZSTD(1)),

    moved SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) CODEC(ZSTD(1)), -- transfer span -> bytes loaded: a sum over it stays exact

    benefit Nullable(Float32) ALIAS alt_ttft + alt_externality - ttft - externality, -- positive: the choice helped; only after the merge

    INDEX by_trace trace TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_request_id request_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_engine_request_id engine_request_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toDate(minute)
ORDER BY (minute, id)
TTL minute + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
