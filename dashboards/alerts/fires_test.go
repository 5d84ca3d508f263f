package alerts

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// State is what Grafana makes of one row.
type State string

const (
	normal State = "normal"
	noData State = "no data" // unknown: DatasourceNoData is raised
	firing State = "firing"
	absent State = "" // no such row, where others are
)

// evaluator is Grafana's: a row a set of labels, asked once a minute.
type evaluator struct {
	alert Alert
	since map[string]int // minute since which a row is over its threshold
}

// at asks once. Without a row at all, the rule itself has no data, under no labels.
func (e *evaluator) at(t *testing.T, conn *clickhouse.Conn, base time.Time, minute int) map[string]State {
	t.Helper()
	sql := e.alert.At(instant(base.Add(time.Duration(minute) * time.Minute)))
	rows, err := conn.Query(context.Background(), sql)
	require.NoError(t, err, sql)
	defer rows.Close()
	out := map[string]State{}
	for rows.Next() {
		labels := make([]string, len(rows.Columns())-1)
		var value *float64
		into := make([]any, 0, len(rows.Columns()))
		for i := range labels {
			into = append(into, &labels[i])
		}
		require.Equal(t, "value", rows.Columns()[len(labels)])
		require.NoError(t, scan(rows.Scan, append(into, &value), &value))
		key := strings.Join(labels, ", ")
		require.NotContains(t, out, key, "two rows of the same labels are an error of the rule")
		out[key] = e.state(key, value, minute)
	}
	require.NoError(t, rows.Err())
	if len(out) == 0 {
		out["*"] = noData
	}
	return out
}

// scan reads the value whether its column is nullable or not.
func scan(f func(...any) error, into []any, value **float64) error {
	err := f(into...)
	if err == nil {
		return nil
	}
	var plain float64
	into[len(into)-1] = &plain
	if err := f(into...); err != nil {
		return err
	}
	*value = &plain
	return nil
}

func (e *evaluator) state(key string, value *float64, minute int) State {
	over := value != nil && (e.alert.Is == Below && *value < e.alert.Threshold || e.alert.Is == Above && *value > e.alert.Threshold)
	if !over {
		delete(e.since, key)
		if value == nil {
			return noData
		}
		return normal
	}
	if _, there := e.since[key]; !there {
		e.since[key] = minute
	}
	if time.Duration(minute-e.since[key])*time.Minute < e.alert.For {
		return normal
	}
	return firing
}

func instant(t time.Time) string {
	return "toDateTime64('" + t.UTC().Format("2006-01-02 15:04:05.000") + "', 3, 'UTC')"
}

// offset is a number of seconds after the base, in a statement: @-300@.
var offset = regexp.MustCompile(`@(-?[\d.]+)@`)

func filled(sql string, base time.Time) string {
	return offset.ReplaceAllStringFunc(sql, func(s string) string {
		seconds, _ := strconv.ParseFloat(strings.Trim(s, "@"), 64)
		return instant(base.Add(time.Duration(seconds * float64(time.Second))))
	})
}

var into = regexp.MustCompile(`^INSERT INTO (\w+)`)

// empty takes the rows of a course out again.
func empty(t *testing.T, conn *clickhouse.Conn, statements []string) {
	for _, sql := range statements {
		require.NoError(t, conn.Exec(context.Background(), "TRUNCATE TABLE "+into.FindStringSubmatch(sql)[1]))
	}
}

// Each alert that is asked of the tables fires on rows just over its threshold, when
// it has held for as long as it says, and not on rows just under it, not a minute
// before, and not where something is not known, which is no data.
func TestAlertsFireAndNotBefore(t *testing.T) {
	server, err := clickhouse.Open(t.Context(), clickhousetest.DSN(t))
	require.NoError(t, err)
	defer server.Close()
	migrateUp(t, server)
	base := time.Now().UTC().Add(-24 * time.Hour).Truncate(time.Hour)
	shown := map[string]map[State]bool{}
	for _, c := range courses() {
		a := alertOf(t, c.alert)
		t.Run(c.alert+"/"+c.name, func(t *testing.T) {
			t.Cleanup(func() { empty(t, server, c.rows) })
			for _, sql := range c.rows {
				require.NoError(t, server.Exec(t.Context(), filled(sql, base)), filled(sql, base))
			}
			got := c.run(t, server, a, base)
			require.Equal(t, c.want, got)
			if shown[c.alert] == nil {
				shown[c.alert] = map[State]bool{}
			}
			for _, s := range got {
				shown[c.alert][s.ends] = true
			}
		})
	}
	for _, a := range Alerts() {
		if a.SQL != "" && !t.Failed() {
			require.True(t, shown[a.Name][firing] && shown[a.Name][normal] && shown[a.Name][noData], "%s: %v", a.Name, shown[a.Name])
		}
	}
}

// run asks every minute from 0 on, and says of each row when it first fired, and how
// it ended.
func (c course) run(t *testing.T, conn *clickhouse.Conn, a Alert, base time.Time) map[string]outcome {
	t.Helper()
	e := &evaluator{alert: a, since: map[string]int{}}
	got := map[string]outcome{}
	for minute := 0; minute <= c.until; minute++ {
		states := e.at(t, conn, base, minute)
		for key, s := range states {
			o, there := got[key]
			if !there {
				o.fired = never
			}
			if s == firing && o.fired == never {
				o.fired = minute
			}
			o.ends = s
			got[key] = o
		}
		for key, o := range got {
			if _, there := states[key]; !there {
				o.ends = absent
				got[key] = o
			}
		}
	}
	return got
}

func alertOf(t *testing.T, name string) Alert {
	t.Helper()
	for _, a := range Alerts() {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no alert %s", name)
	return Alert{}
}

// Over shards the queries answer, and read each shard's rows once.
func TestQueriesOverShards(t *testing.T) {
	conn := migratetest.Shards(t)
	base := time.Now().UTC().Add(-24 * time.Hour).Truncate(time.Hour)
	for shard := range 2 {
		require.NoError(t, conn.Exec(t.Context(), filled(fmt.Sprintf(`INSERT INTO slices (minute, path, link, gen, shard, n, unknown)
			SELECT toDateTime(@-900@) + number * 60, 'fetch', 'l', 1, %d, 100, %d FROM numbers(30)`, shard, 41*shard), base)))
	}
	for _, a := range Alerts() {
		if a.SQL == "" {
			continue
		}
		e := &evaluator{alert: a, since: map[string]int{}}
		states := e.at(t, conn, base, 0)
		if a.Name == "DecisionCoverageLow" {
			require.Len(t, e.since, 1, "41 of 200 are unknown")
			require.Equal(t, map[string]State{"": normal}, states)
		}
	}
}
