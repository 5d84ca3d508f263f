package verdict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// Write puts a result into estimates and verdicts. Written twice it is there
// once. Rows of estimates that an earlier result left in the same window and
// scope, and that this one does not have any more (a late part moved a request
// to another slice, or the blocks had another length), are emptied, so that no
// decision is counted twice. A block that reaches beyond the window is emptied
// whole: what was judged in longer blocks has to be judged again.
func Write(ctx context.Context, conn driver.Conn, r *Result) error {
	if r.Scope.Service != "" {
		return errService
	}
	rows := r.estimateRows()
	old, err := r.superseded(ctx, conn, rows)
	if err != nil {
		return fmt.Errorf("write estimates of %s: %w", r.Scope, err)
	}
	if err := insert(ctx, conn, "estimates", append(rows, old...)); err != nil {
		return fmt.Errorf("write estimates of %s: %w", r.Scope, err)
	}
	return WriteVerdicts(ctx, conn, r)
}

// WriteVerdicts puts a result into verdicts only. Use it for the parts of a whole
// whose sums Write has put into estimates: a part corrects by its own control
// legs alone, and its rows would take the place of the whole's.
func WriteVerdicts(ctx context.Context, conn driver.Conn, r *Result) error {
	if r.Scope.Service != "" {
		return errService
	}
	if err := insert(ctx, conn, "verdicts", r.verdictRows()); err != nil {
		return fmt.Errorf("write verdicts of %s: %w", r.Scope, err)
	}
	return nil
}

var errService = errors.New("the tables keep no verdict of one service: judge without it, or do not store the result")

// superseded are empty rows for what estimates holds of this window and scope
// beyond the new rows.
func (r *Result) superseded(ctx context.Context, conn driver.Conn, rows []estimateRow) ([]estimateRow, error) {
	now := make(map[estimateKey]bool, len(rows))
	for i := range rows {
		now[rows[i].estimateKey] = true
	}
	var held []estimateRow
	err := conn.Select(ctx, &held, `
SELECT block, block_seconds, pair_from, pair_to, estimator, policy, model, tier, link, size_bucket
FROM estimates FINAL
WHERE block >= toDateTime(?, 'UTC') - INTERVAL 1 DAY AND block < toDateTime(?, 'UTC') AND block + block_seconds > toDateTime(?, 'UTC')
  AND (n > 0 OR unknown > 0)
  AND (? = '' OR policy = ?) AND (? = '' OR model = ?) AND (? = '' OR tier = ?) AND (? = '' OR link = ?)`,
		r.Window.From.Unix(), r.Window.Until.Unix(), r.Window.From.Unix(),
		r.Scope.Policy, r.Scope.Policy, r.Scope.Model, r.Scope.Model, r.Scope.Tier, r.Scope.Tier, r.Scope.Link, r.Scope.Link)
	if err != nil {
		return nil, clickhouse.Explain(err)
	}
	var out []estimateRow
	for _, h := range held {
		h.Block = h.Block.UTC()
		if !now[h.estimateKey] {
			h.Version, h.Reason, h.Computed = Version, "superseded", r.At
			out = append(out, h)
		}
	}
	return out, nil
}

// insertRows is how many rows go into one insert at most.
const insertRows = 100_000

func insert[T any](ctx context.Context, conn driver.Conn, table string, rows []T) error {
	for len(rows) > 0 {
		n := min(len(rows), insertRows)
		if err := insertBatch(ctx, conn, table, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func insertBatch[T any](ctx context.Context, conn driver.Conn, table string, rows []T) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+table)
	if err != nil {
		return clickhouse.Explain(err)
	}
	defer batch.Close()
	for i := range rows {
		if err := batch.AppendStruct(&rows[i]); err != nil {
			return fmt.Errorf("row %d of %s: %w", i, table, err)
		}
	}
	return clickhouse.Explain(batch.Send())
}

// Latest gives the newest verdicts of exactly this scope: a row a pair, target
// and estimator, the headline's first. It is empty where there is none.
func Latest(ctx context.Context, conn driver.Conn, s Scope) ([]Row, error) {
	if s.Service != "" {
		return nil, errService
	}
	var rows []Row
	err := conn.Select(ctx, &rows, `
WITH policy = ? AND model = ? AND tier = ? AND link = ? AND size_bucket = '' AS in_scope
SELECT at, window_from, window_until, target, policy, model, tier, link, size_bucket, pair_from, pair_to, estimator, version,
    verdict, estimate, lo, hi, level, n, legs, controls, ess, max_weight, pareto_k, unknown_share, reason, plan, revision
FROM verdicts FINAL
WHERE in_scope AND at = (SELECT max(at) FROM verdicts WHERE in_scope)
ORDER BY (pair_from = 'fetch' AND pair_to = 'recompute') DESC, pair_from, pair_to, estimator, target`,
		s.Policy, s.Model, s.Tier, s.Link)
	if err != nil {
		return nil, fmt.Errorf("read verdicts of %s: %w", s, clickhouse.Explain(err))
	}
	return rows, nil
}

// ScopeCount is a policy and link that traffic has, and how much of it.
type ScopeCount struct {
	Scope
	Moved    uint64 // decisions whose choice used the link; all of the policy where Link is ""
	Eligible uint64 // decisions that could have used it and did not
}

// Scopes gives the policies and links of a window, the busiest first, so that
// each can be judged. A policy without any link has one entry with Link "".
func Scopes(ctx context.Context, conn driver.Conn, w Window) ([]ScopeCount, error) {
	rows, err := conn.Query(ctx, `
WITH arrayDistinct(arrayFilter(l -> l != '', arrayMap(l -> splitByChar('+', l)[1], `+"`candidate.links`"+`))) AS could
SELECT policy, arrayJoin(multiIf(link != '', [link], empty(could), [''], could)) AS over, countIf(link = over) AS moved, countIf(link != over) AS eligible
FROM requests FINAL
WHERE minute >= toStartOfMinute(toDateTime(?, 'UTC')) AND minute < toDateTime(?, 'UTC')
  AND start >= fromUnixTimestamp64Nano(toInt64(?), 'UTC') AND start < fromUnixTimestamp64Nano(toInt64(?), 'UTC') AND kind = 'contract'
GROUP BY policy, over
ORDER BY moved + eligible DESC, policy, over
SETTINGS do_not_merge_across_partitions_select_final = 1`,
		w.From.Unix(), w.Until.Add(time.Second-1).Unix(), w.From.UnixNano(), w.Until.UnixNano())
	if err != nil {
		return nil, fmt.Errorf("list policies and links: %w", clickhouse.Explain(err))
	}
	defer rows.Close()
	var out []ScopeCount
	linked := map[string]bool{}
	for rows.Next() {
		var c ScopeCount
		if err := rows.Scan(&c.Policy, &c.Link, &c.Moved, &c.Eligible); err != nil {
			return nil, fmt.Errorf("list policies and links: %w", clickhouse.Explain(err))
		}
		linked[c.Policy] = linked[c.Policy] || c.Link != ""
		out = append(out, c)
	}
	kept := out[:0]
	for _, c := range out {
		if c.Link != "" || !linked[c.Policy] {
			kept = append(kept, c)
		}
	}
	return kept, clickhouse.Explain(rows.Err())
}
