package query

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// Worst gives the n decisions with the largest predicted regret, with the stages
// of the path taken and, as they were predicted, of the path not taken.
func Worst(ctx context.Context, conn driver.Conn, w Window, n int) ([]report.Decision, error) {
	var out []report.Decision
	var keys []string
	sql := `SELECT minute, id, trace, start, policy, model, toString(path), link, toFloat64(ttft), toString(alt_path), toFloat64(alt_ttft), toFloat64(shrunk)
FROM worst FINAL WHERE ` + w.where("minute") + w.only() + ` AND shrunk < 0 AND (shard, minute, gen) GLOBAL IN (SELECT shard, minute, max(gen) FROM worst WHERE ` + w.where("minute") + ` GROUP BY shard, minute)
ORDER BY shrunk, id ` + fmt.Sprintf("LIMIT %d", n)
	err := rows(ctx, conn, "worst decisions", sql, func(r driver.Rows) error {
		var d report.Decision
		var minute time.Time
		var id, trace string
		var ttft, alternative, shrunk float64
		if err := r.Scan(&minute, &id, &trace, &d.At, &d.Policy, &d.Model, &d.Path, &d.Link, &ttft, &d.Alternative, &alternative, &shrunk); err != nil {
			return err
		}
		d.ID, d.Trace = hex.EncodeToString([]byte(id)), hex.EncodeToString([]byte(trace))
		d.Observed, d.Predicted, d.Regret = opt(&ttft), opt(&alternative), report.Num(-shrunk)
		out = append(out, d)
		keys = append(keys, fmt.Sprintf("(toDateTime(%s, 'UTC'), unhex('%x'))", literal(minute), id))
		return nil
	})
	if err != nil || len(keys) == 0 {
		return out, err
	}
	return out, addTimelines(ctx, conn, out, keys)
}

// addTimelines reads the stages of the decisions whose keys are given.
func addTimelines(ctx context.Context, conn driver.Conn, all []report.Decision, keys []string) error {
	sql := `WITH arrayFirstIndex((p, t) -> p = toString(alt_path) AND t = alt_ttft, arrayMap(p -> toString(p), candidate.path), candidate.ttft) AS i
SELECT trace, start, toFloat64(gpu_queue), toFloat64(exposed_stall), toFloat64(restore), toFloat64(prefill), toFloat64(ttft),
	if(i = 0, nan, toFloat64(candidate.gpu_queue[i])), if(i = 0, nan, toFloat64(candidate.transfer_queue[i])), if(i = 0, nan, toFloat64(candidate.bandwidth[i])), if(i = 0, -1, toInt64(candidate.bytes[i])),
	if(i = 0, nan, toFloat64(candidate.restore[i])), if(i = 0, nan, toFloat64(candidate.recompute[i])), toFloat64(alt_ttft)
FROM requests FINAL WHERE (minute, id) IN (` + strings.Join(keys, ", ") + `)`
	return rows(ctx, conn, "stages of the worst decisions", sql, func(r driver.Rows) error {
		var trace string
		var at time.Time
		var queue, stall, restore, prefill, ttft, altTTFT *float64
		var c candidate
		if err := r.Scan(&trace, &at, &queue, &stall, &restore, &prefill, &ttft, &c.queue, &c.transferQueue, &c.bandwidth, &c.bytes, &c.restore, &c.compute, &altTTFT); err != nil {
			return err
		}
		for i := range all {
			if d := &all[i]; d.Trace == hex.EncodeToString([]byte(trace)) && d.At.Equal(at) {
				d.Taken = report.Timeline{GPUQueue: opt(queue), ExposedStall: opt(stall), Restore: opt(restore), Prefill: opt(prefill), TTFT: opt(ttft)}
				d.NotTaken = c.timeline()
				d.NotTaken.TTFT = opt(altTTFT)
			}
		}
		return nil
	})
}

// candidate is what was predicted of a path; NaN, and -1 bytes, is "not
// applicable".
type candidate struct {
	queue, transferQueue, bandwidth, restore, compute float64 // seconds, bytes/s
	bytes                                             int64
}

// timeline is the candidate's stages; its exposed stall is the part of its
// transfer that its GPU queue does not hide (schema/cost, ExposedStall at ω = 0).
func (c candidate) timeline() report.Timeline {
	t := report.Timeline{GPUQueue: opt(&c.queue), Restore: opt(&c.restore), Prefill: opt(&c.compute)}
	if wire := float64(c.bytes) / c.bandwidth; c.bytes > 0 && c.bandwidth > 0 && !math.IsNaN(c.queue) {
		queue := c.transferQueue
		if math.IsNaN(queue) {
			queue = 0
		}
		t.ExposedStall = report.Num(math.Max(0, queue+wire-c.queue))
	}
	return t
}
