// Package query fills a report from the tables of ClickHouse. It reads and never
// writes. Slices are read with the filter on gen that schema/ddl states, so a
// request that moved to another slice is counted once.
package query

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// Window is the decisions that are asked about: whole minutes, from the minute
// that holds From, to the end of the minute that holds the last instant before
// Until. A Link or a Model that is not empty leaves only requests of it.
type Window struct {
	From, Until time.Time
	Link, Model string
}

// bounds are the first minute and the first one after the window, as literals.
func (w Window) bounds() (from, until string) {
	end := w.Until.UTC().Truncate(time.Minute)
	if end.Before(w.Until) {
		end = end.Add(time.Minute)
	}
	return literal(w.From.UTC().Truncate(time.Minute)), literal(end)
}

func literal(t time.Time) string { return t.UTC().Format("'2006-01-02 15:04:05'") }

// slices is the source of every rollup of the window.
func (w Window) slices() string {
	from, until := w.bounds()
	between := "slices_between(from = " + from + ", until = " + until + ")"
	if only := w.only(); only != "" { // upon the rows of the largest gen, never among those that it is looked for in
		return "(SELECT * FROM " + between + " WHERE true" + only + ")"
	}
	return between
}

// only are conditions on the columns link and model, each preceded by AND.
func (w Window) only() (s string) {
	if w.Link != "" {
		s += " AND link = " + Quote(w.Link)
	}
	if w.Model != "" {
		s += " AND model = " + Quote(w.Model)
	}
	return s
}

// where limits a column that is the start of a minute or a block.
func (w Window) where(column string) string {
	from, until := w.bounds()
	return column + " >= toDateTime(" + from + ", 'UTC') AND " + column + " < toDateTime(" + until + ", 'UTC')"
}

// Data is everything of a report that the tables hold. What they do not hold is
// for the caller: the truth, paired arms, refusals of the replayer, dead
// letters, what became of the last calibration, and Measured beyond its window.
func Data(ctx context.Context, conn driver.Conn, w Window) (d report.Data, err error) {
	d.Measured.From, d.Measured.Until = w.From.UTC(), w.Until.UTC()
	steps := []func() error{
		func() (err error) { d.Verdicts, err = Verdicts(ctx, conn, w); return },
		func() (err error) { d.Benefits, err = Benefit(ctx, conn, w); return },
		func() (err error) { d.Stages, err = Stages(ctx, conn, w); return },
		func() (err error) { d.Truths, err = Estimates(ctx, conn, w); return },
		func() (err error) { d.Calibration, err = Calibration(ctx, conn); return },
		func() (err error) { d.Arms, err = Policies(ctx, conn, w); return },
		func() (err error) { d.Worst, err = Worst(ctx, conn, w, 20); return },
		func() (err error) { d.Coverage, err = Coverage(ctx, conn, w); return },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return report.Data{}, err
		}
	}
	return d, nil
}

// rows runs a query and hands each row to scan; the error says what was asked.
func rows(ctx context.Context, conn driver.Conn, what, sql string, scan func(driver.Rows) error) error {
	result, err := conn.Query(ctx, sql)
	if err != nil {
		return fmt.Errorf("report: read %s: %w", what, err)
	}
	defer result.Close()
	for result.Next() {
		if err := scan(result); err != nil {
			return fmt.Errorf("report: read %s: %w", what, err)
		}
	}
	if err := result.Err(); err != nil {
		return fmt.Errorf("report: read %s: %w", what, err)
	}
	return nil
}

// opt is a value that is missing where it is NULL or no finite number.
func opt(v *float64) report.Number {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return report.Number{}
	}
	return report.Num(*v)
}
