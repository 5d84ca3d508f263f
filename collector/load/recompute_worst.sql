-- Benefits are shrunk to the mean of their (minute, policy, path) by the share of
-- their variance that predictions explain: the slope of predicted on observed
-- benefit, within 0 and 1. The first %d is the shard, %s the list of minutes, the
-- last %d how many a minute.
INSERT INTO worst
(
    minute, rank, gen, shard, id, trace, start, policy, model, path, tier, link, worker,
    tokens_prefix, bytes, ttft, alt_path, alt_ttft, benefit, shrunk
)
SELECT
    minute, row_number() OVER (PARTITION BY minute ORDER BY shrunk, id) AS rank, gen, %d, id, trace, start, policy, if(model = '', engine_model, model), path, tier, link, worker,
    tokens_prefix, bytes, assumeNotNull(ttft), alt_path, assumeNotNull(alt_ttft), known, shrunk
FROM
(
    SELECT
        *,
        avg(known) OVER slice AS mean,
        covarPop(expected, known) OVER slice AS cov,
        varPop(known) OVER slice AS spread,
        mean + greatest(0, least(1, if(spread > 0, cov / spread, 0))) * (known - mean) AS shrunk
    FROM
    (
        SELECT
            *,
            sum(length(spans)) OVER (PARTITION BY minute) AS gen,
            alt_ttft + alt_externality - ttft - externality AS perhaps,
            toFloat64(ifNull(perhaps, 0)) AS known,
            toFloat64(ifNull(alt_ttft + alt_externality - externality, 0)) - `candidate.ttft`[chosen + 1] AS guess,
            if(isFinite(guess), guess, known) AS expected
        FROM requests FINAL
        WHERE minute IN (%s)
    )
    WHERE perhaps IS NOT NULL
    WINDOW slice AS (PARTITION BY minute, policy, path)
)
ORDER BY minute, shrunk, id
LIMIT %d BY minute
