-- How far load has brought each partition of the topic of parts into these
-- tables, slices included. For people and for lag; consuming goes by the group's
-- own offsets. Read with FINAL.
CREATE TABLE IF NOT EXISTS positions
(
    topic     LowCardinality(String),
    partition UInt32,
    next      Int64,                                      -- offset that comes next
    at        DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (topic, partition)
