-- Every coefficient document that was published, kept for good: payload is the
-- exact bytes that are signed, signature the detached JWS over them. A revision is
-- inserted with a deduplication token, so that of two publishers one wins; the
-- window is of that. (A replicated table has one of its own, as long by default.)
CREATE TABLE IF NOT EXISTS coefficients
(
    revision  UInt64,
    created   DateTime64(9, 'UTC'),
    payload   String CODEC(ZSTD(3)),
    signature String,
    note      String                                      -- why it was published, for people
)
ENGINE = ReplacingMergeTree
ORDER BY (revision, created)
SETTINGS non_replicated_deduplication_window = 10000
