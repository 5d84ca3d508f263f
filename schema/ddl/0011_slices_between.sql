-- slices with the filter on gen that every reader needs, for a range of minutes:
--   SELECT ... FROM slices_between(from = '2026-12-01 00:00:00', until = '2026-12-02 00:00:00')
CREATE VIEW IF NOT EXISTS slices_between AS
SELECT *
FROM slices FINAL
WHERE minute >= {from:DateTime('UTC')} AND minute < {until:DateTime('UTC')}
  AND (shard, minute, gen) GLOBAL IN
  (
      SELECT shard, minute, max(gen)
      FROM slices
      WHERE minute >= {from:DateTime('UTC')} AND minute < {until:DateTime('UTC')}
      GROUP BY shard, minute
  )
