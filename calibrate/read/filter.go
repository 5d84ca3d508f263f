package read

import (
	"fmt"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// Filter says whose requests are read. Flows of all that it lets through are taken
// to share the links they name: two simulated runs of one link at one time must
// not pass the same filter.
type Filter struct {
	Policies []string // kvreuse.policy; none: all
	Services []string // service.name of who decided; none: all
}

// arguments bind @from and @until (Unix nanoseconds), @policies and @services.
func (f Filter) arguments(from, until int64) []any {
	return []any{
		ch.Named("from", from), ch.Named("until", until),
		ch.Named("policies", orEmpty(f.Policies)), ch.Named("services", orEmpty(f.Services)),
	}
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func checkWindow(from, until int64) error {
	if from <= 0 || until <= from {
		return fmt.Errorf("the window from %d until %d (Unix nanoseconds) is empty: give a start before its end", from, until)
	}
	return nil
}

// names keeps one copy of each string: a million rows name a few links.
type names map[string]string

func (n names) one(s string) string {
	if kept, ok := n[s]; ok {
		return kept
	}
	n[s] = s
	return s
}

// each scans every row of a query with scan.
func each(rows driver.Rows, err error, scan func(driver.Rows) error) error {
	if err != nil {
		return clickhouse.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return clickhouse.Explain(rows.Err())
}
