-- The queue law of each document by which requests of the window were decided.
SELECT
    toInt64(revision) AS document,
    JSONExtractInt(payload, 'queue', 'quality', 'n') AS fitted,
    JSONExtractFloat(payload, 'queue', 'bias') AS bias,
    JSONExtractFloat(payload, 'queue', 'slope') AS slope
FROM coefficients FINAL
WHERE payload != '' AND has(@revisions, toInt64(revision))
ORDER BY revision, created
LIMIT 1 BY revision
