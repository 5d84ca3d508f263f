package crash

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// statementOf is the definition of a table, with each old replaced by its new.
func statementOf(t *testing.T, table string, oldnew ...string) string {
	t.Helper()
	for _, o := range ddl.Objects() {
		if o.Name != table {
			continue
		}
		for i := 0; i < len(oldnew); i += 2 {
			require.Equal(t, 1, strings.Count(o.SQL, oldnew[i]), "%s has no %q, or several", table, oldnew[i])
		}
		return strings.NewReplacer(oldnew...).Replace(o.SQL)
	}
	require.Fail(t, "no such table", table)
	return ""
}

// unmerged makes requests a table that keeps each row that is inserted, for the key
// has a random number in it: a database without the merge.
func unmerged(t *testing.T) func(*clickhouse.Conn) {
	return func(conn *clickhouse.Conn) {
		create := statementOf(t, "requests", "\n    id     FixedString(16)", "\n    mutant UInt64 DEFAULT rand64(),\n    id     FixedString(16)",
			"\nORDER BY (minute, id)", "\nORDER BY (minute, id, mutant)")
		require.NoError(t, conn.Exec(t.Context(), "DROP TABLE requests SYNC"))
		require.NoError(t, conn.Exec(t.Context(), create))
	}
}

// TestMutantWithoutMerge runs the bench on a database that does not merge, which it
// has to find out.
func TestMutantWithoutMerge(t *testing.T) {
	t.Parallel()
	r := startStages(t, places{}, unmerged(t))
	r.victims = []*victim{r.victimOf("loader 1")}
	b := newBench(t, r, newStory(t))
	b.kill(t, plan{kills: 1, inTurn: true, least: time.Second, gap: time.Second})
	f := b.findings(t, patience, func(f findings) bool { return f.has(lostRow) == 0 && f.has(doubledRow) > 0 && f.has(wrongSlice) > 0 })
	require.Positive(t, f.has(doubledRow), "the bench does not see doubled requests: %v", f.err())
	require.Positive(t, f.has(wrongSlice), "the bench does not see doubled rollups: %v", f.err())
	require.Zero(t, f.has(lostRow), "it loses nothing: %v", f.err())
	t.Logf("found, as it must: %v", f.err())
}

// requireGenFilterMatters reads slices without the filter on gen, on tables in which
// the bench found nothing: requests that moved to another slice are then in two.
func (b *bench) requireGenFilterMatters(t *testing.T) {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), b.rig.writer)
	require.NoError(t, err)
	defer conn.Close()
	view := statementOf(t, "slices_between", "CREATE VIEW IF NOT EXISTS", "CREATE OR REPLACE VIEW")
	before, _, found := strings.Cut(view, "\n  AND (")
	require.True(t, found && strings.Contains(view, "max(gen)"), "slices_between has no filter on gen")
	require.NoError(t, conn.Exec(context.WithoutCancel(t.Context()), before))
	f := findings{}
	require.NoError(t, newRecount(b.sender.story, b.sender.accepted).checkSlices(t.Context(), conn, f))
	require.Positive(t, f.has(wrongSlice), "without the filter on gen, no request is counted twice: did none move?")
	t.Logf("without the filter on gen: %v", f.err())
}
