package query

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// Coverage gives how much of the traffic the answers rest on. Replays that were
// refused and dead letters are in no table; the caller adds them.
func Coverage(ctx context.Context, conn driver.Conn, w Window) (c report.Coverage, err error) {
	var n, decided, orphans, conflicts uint64
	var predicted int64
	sql := "SELECT sum(n), sumIf(n, path != ''), sum(n) - sum(unknown), sum(orphans), sum(conflicts) FROM " + w.slices()
	err = rows(ctx, conn, "coverage", sql, func(r driver.Rows) error { return r.Scan(&n, &decided, &predicted, &orphans, &conflicts) })
	if err != nil {
		return c, err
	}
	c.Requests, c.WithDecision, c.Predicted, c.Orphans, c.Conflicts = int64(n), int64(decided), predicted, int64(orphans), int64(conflicts)
	if c.Waiting, err = waiting(ctx, conn, w); err != nil {
		return c, err
	}
	if c.Legs, err = legs(ctx, conn, w); err != nil {
		return c, err
	}
	for _, l := range c.Legs {
		if l.Leg == schema.LegRejected.String() {
			c.Sampled += max(l.Executed, int64(l.Intended.V))
		}
	}
	return c, support(ctx, conn, w, &c)
}

func waiting(ctx context.Context, conn driver.Conn, w Window) (int64, error) {
	var n uint64
	from, until := w.bounds()
	sql := "SELECT count() FROM waiting FINAL WHERE day >= toDate(toDateTime(" + from + ", 'UTC')) AND day <= toDate(toDateTime(" + until + ", 'UTC'))"
	err := rows(ctx, conn, "waiting parts", sql, func(r driver.Rows) error { return r.Scan(&n) })
	return int64(n), err
}

// legs gives executed legs, of decisions of the window, by size bucket and leg,
// beside those that were drawn. Of control legs no table says how many were.
func legs(ctx context.Context, conn driver.Conn, w Window) ([]report.Legs, error) {
	planned := map[string]uint64{}
	sql := "SELECT toString(size_bucket) AS size, sum(planned) FROM estimates FINAL WHERE lower(estimator) = 'aipw' AND " + w.where("block") + w.only() + " GROUP BY size"
	err := rows(ctx, conn, "planned replays", sql, func(r driver.Rows) error {
		var size string
		var n uint64
		err := r.Scan(&size, &n)
		planned[size] = n
		return err
	})
	if err != nil {
		return nil, err
	}
	from, _ := w.bounds()
	var out []report.Legs
	sql = `SELECT toString(` + sizeBucket + `) AS size, toString(leg) AS which, count() FROM replays FINAL
WHERE start >= toDateTime(` + from + `, 'UTC') AND leg != '' AND id IN (SELECT id FROM requests WHERE ` + w.where("minute") + w.only() + `)
GROUP BY size, which ORDER BY toInt8(size), which DESC`
	err = rows(ctx, conn, "replays", sql, func(r driver.Rows) error {
		var size string
		var n uint64
		var l report.Legs
		if err := r.Scan(&size, &l.Leg, &n); err != nil {
			return err
		}
		l.Size, l.Executed = sizeName(size), int64(n)
		// Pairs that were refused have no rows of estimates, so fewer planned than
		// executed says that not all are known.
		if l.Leg == schema.LegRejected.String() && planned[size] >= n {
			l.Intended = report.Num(float64(planned[size]))
		}
		out = append(out, l)
		return nil
	})
	return append(out, missing(out, planned)...), err
}

// missing gives the buckets in which legs were drawn and none came back, which
// is where a sample leans most.
func missing(have []report.Legs, planned map[string]uint64) (out []report.Legs) {
	seen := map[string]bool{}
	for _, l := range have {
		seen[l.Size] = seen[l.Size] || l.Leg == schema.LegRejected.String()
	}
	for i := -1; i <= len(schema.SizeBuckets); i++ {
		size := strconv.Itoa(i)
		if n := planned[size]; n > 0 && !seen[sizeName(size)] {
			out = append(out, report.Legs{Size: sizeName(size), Leg: schema.LegRejected.String(), Intended: report.Num(float64(n))})
		}
	}
	return out
}

// support adds how well each verdict is carried, and why some were refused.
func support(ctx context.Context, conn driver.Conn, w Window, c *report.Coverage) error {
	all, err := latest(ctx, conn, w)
	if err != nil {
		return err
	}
	refused := map[string]int64{}
	var order []string
	for _, s := range headlines(all, "aipw", w.Model) {
		of := "all links"
		if s.Link != "" {
			of = "link " + s.Link
		}
		if s.Policy != "" {
			of += ", policy " + s.Policy
		}
		c.Support = append(c.Support, report.Support{Of: of + ": " + s.From + " against " + s.To, Replays: int64(s.Legs),
			ESS: opt(&s.ESS), LargestWeight: opt(&s.MaxWeight), ParetoK: opt(s.ParetoK)})
		if s.interval() == nil && s.Reason != "" {
			if refused[s.Reason] == 0 {
				order = append(order, s.Reason)
			}
			refused[s.Reason]++
		}
	}
	for _, reason := range order {
		c.Refusals = append(c.Refusals, report.Count{Reason: "estimate refused: " + reason, N: refused[reason]})
	}
	return nil
}

// Policies gives TTFT by policy, where more than one decided. Nothing pairs
// their requests here, so no gain is known: the caller sets Gain where it is.
func Policies(ctx context.Context, conn driver.Conn, w Window) (out []report.Arm, err error) {
	sql := "SELECT policy, sum(n), sum(n_ttft), sum(sum_ttft), sumForEach(ttft_hist) FROM " + w.slices() + " WHERE policy != '' GROUP BY policy ORDER BY policy"
	err = rows(ctx, conn, "policies", sql, func(r driver.Rows) error {
		var n, known uint64
		var sum float64
		var hist []uint64
		a := report.Arm{Reason: "these policies decided different requests"}
		if err := r.Scan(&a.Policy, &n, &known, &sum, &hist); err != nil {
			return err
		}
		a.Requests = int64(n)
		if known > 0 {
			a.Mean = report.Num(sum / float64(known))
		}
		a.P50, a.P95, a.P99 = ofHistogram(hist, 0.5), ofHistogram(hist, 0.95), ofHistogram(hist, 0.99)
		out = append(out, a)
		return nil
	})
	if len(out) < 2 {
		return nil, err
	}
	return out, err
}

// ofHistogram is the q-quantile of TTFT, the geometric middle of its bucket: at
// most 4.5 % off. In the first bucket and in the last, which have one bound, it
// is that bound.
func ofHistogram(hist []uint64, q float64) report.Number {
	var total, below uint64
	for _, n := range hist {
		total += n
	}
	if total == 0 {
		return report.Number{}
	}
	for i, n := range hist {
		below += n
		if float64(below) >= q*float64(total) {
			at := float64(i) - 0.5 // bucket i ends at 2^(i/8) ms
			switch i {
			case 0:
				at = 0
			case len(hist) - 1:
				at = float64(i - 1)
			}
			return report.Num(ddl.TTFTFirstBound * math.Exp2(at/ddl.TTFTBucketsPerOctave))
		}
	}
	return report.Number{}
}

// Calibration gives the coefficients that were published last. Whether the last
// run published or was refused is the caller's to say.
func Calibration(ctx context.Context, conn driver.Conn) (c report.Calibration, err error) {
	c.Note = "No document was ever published here, so coordinators decide by their fallback."
	err = rows(ctx, conn, "coefficients", "SELECT payload, note FROM coefficients FINAL ORDER BY revision DESC, created DESC LIMIT 1", func(r driver.Rows) error {
		var payload, note string
		if err := r.Scan(&payload, &note); err != nil {
			return err
		}
		var d schema.Document
		if err := json.Unmarshal([]byte(payload), &d); err != nil {
			return fmt.Errorf("the last coefficient document cannot be read: %w", err)
		}
		c = report.OfDocument(d)
		if note != "" && note != "prices" { // a refresh of the prices says nothing of the laws
			c.Reasons = []string{note}
		}
		return nil
	})
	return c, err
}
