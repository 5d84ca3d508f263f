-- Each shard makes its own rollup of a minute, so gen is that of (shard, minute).
-- Rows made before are of shard 0, the only one.
ALTER TABLE slices ADD COLUMN IF NOT EXISTS shard UInt16 CODEC(ZSTD(1)) AFTER gen;

ALTER TABLE worst ADD COLUMN IF NOT EXISTS shard UInt16 CODEC(ZSTD(1)) AFTER gen;

CREATE OR REPLACE VIEW slices_between AS
SELECT *
FROM slices FINAL
WHERE minute >= {from:DateTime('UTC')} AND minute < {until:DateTime('UTC')}
  AND (shard, minute, gen) GLOBAL IN
  (
      SELECT shard, minute, max(gen)
      FROM slices
      WHERE minute >= {from:DateTime('UTC')} AND minute < {until:DateTime('UTC')}
      GROUP BY shard, minute
  );
