package app

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
)

const storedSQL = `SELECT count(), uniqExact(request_id) FROM requests FINAL
WHERE minute >= {from:DateTime('UTC')} AND minute < {until:DateTime('UTC')} AND policy = {policy:String}`

// addCoverage holds what was accepted against what the tables have.
func (d *demo) addCoverage(ctx context.Context, c *report.Coverage) error {
	from, until := d.window()
	var rows, distinct uint64
	err := d.backend.Conn.QueryRow(ctx, storedSQL,
		named("from", from.Truncate(time.Minute)), named("until", until.Add(time.Minute).Truncate(time.Minute)), named("policy", PolicyFetchAll)).Scan(&rows, &distinct)
	if err != nil {
		return fmt.Errorf("count the stored requests: %w", err)
	}
	accepted := 0
	for _, m := range d.mains {
		accepted += len(m.traffic.outcomes)
		for why, n := range m.replays.Dropped {
			c.Refusals = append(c.Refusals, report.Count{Reason: "replay on the " + m.scenario + " link: " + why, N: n})
		}
	}
	dead, err := d.deadLetters(ctx)
	if err != nil {
		return err
	}
	c.Dead = report.Num(dead)
	c.Accepted = report.Num(float64(accepted))
	c.Lost = report.Num(float64(accepted) - float64(distinct))
	c.Doubled = report.Num(float64(rows - distinct))
	return nil
}

// deadLetters counts the dead letters that the topic of them holds.
func (d *demo) deadLetters(ctx context.Context) (n float64, err error) {
	first, last, err := kafka.Offsets(ctx, d.backend.Cluster, schema.TopicDead)
	if err != nil {
		return 0, fmt.Errorf("count the dead letters: %w", err)
	}
	for p := range last {
		n += float64(last[p] - first[p])
	}
	return n, nil
}

// legs is how many replays were meant to run and did, by size and kind.
func (d *demo) legs() []report.Legs {
	type cell struct {
		size int
		leg  schema.Leg
	}
	sum := map[cell]*report.Legs{}
	for _, v := range d.verdicts {
		for _, l := range v.Legs {
			c := cell{l.Size, l.Leg}
			if sum[c] == nil {
				sum[c] = &report.Legs{Size: schema.SizeBucketName(l.Size), Leg: l.Leg.String(), Intended: report.Num(0)}
			}
			sum[c].Intended.V += l.Intended
			sum[c].Executed += int64(l.Executed)
		}
	}
	var out []report.Legs
	for size := -1; size <= len(schema.SizeBuckets); size++ {
		for _, leg := range []schema.Leg{schema.LegRejected, schema.LegControl} {
			if l := sum[cell{size, leg}]; l != nil {
				out = append(out, *l)
			}
		}
	}
	return out
}
