package migrate

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

func TestUpTwiceAppliesOnce(t *testing.T) {
	conn, ctx := clickhousetest.Open(t), t.Context()
	done, err := Up(ctx, conn)
	require.NoError(t, err)
	require.Len(t, done, len(ddl.Objects())+len(ddl.Changes()))
	done, err = Up(ctx, conn)
	require.NoError(t, err)
	require.Empty(t, done)
	var tables uint64
	require.NoError(t, conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = currentDatabase()").Scan(&tables))
	require.EqualValues(t, len(ddl.Objects())+1, tables)
}

func TestUpGoesOnAfterACrash(t *testing.T) {
	conn, ctx := clickhousetest.Open(t), t.Context()
	objects := ddl.Objects()
	_, err := definitions{objects: objects[:3]}.apply(ctx, conn, "")
	require.NoError(t, err)
	require.NoError(t, conn.Exec(ctx, objects[3].SQL)) // made, but not recorded
	done, err := Up(ctx, conn)
	require.NoError(t, err)
	require.Equal(t, "create 0004_transfers", done[0].Name)
	require.Len(t, done, len(objects)-3+len(ddl.Changes()))
	require.Equal(t, schemaOf(t, fresh(t)), schemaOf(t, conn))
}

func TestUpRefuses(t *testing.T) {
	conn, ctx := clickhousetest.Open(t), t.Context()
	_, err := Up(ctx, conn)
	require.NoError(t, err)

	d := current()
	d.objects = d.objects[:len(d.objects)-1]
	_, err = d.apply(ctx, conn, "")
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, ddl.Objects()[len(ddl.Objects())-1].Name)

	d = current()
	last := d.changes[len(d.changes)-1]
	d.changes = d.changes[:len(d.changes)-1]
	_, err = d.apply(ctx, conn, "")
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, "change 000"+strconv.Itoa(last.Version)+"_"+last.Name)

	d = current()
	d.changes[0].SQL += ";ALTER TABLE slices ADD COLUMN IF NOT EXISTS x Int8"
	_, err = d.apply(ctx, conn, "")
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, "change 0001_")

	d = current()
	d.objects[2].SQL += " COMMENT 'other'"
	_, err = d.apply(ctx, conn, "")
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, "0003_waiting")
}

func TestSetRetention(t *testing.T) {
	conn, ctx := clickhousetest.Open(t), t.Context()
	_, err := Up(ctx, conn)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, SetRetention(ctx, conn, Retention{Requests: 7, Rollups: 500}))
	}
	for table, want := range map[string]string{"requests": "toIntervalDay(7)", "slices": "toIntervalDay(500)", "replays": "toIntervalDay(90)"} {
		var made string
		require.NoError(t, conn.QueryRow(ctx, "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = ?", table).Scan(&made))
		require.Contains(t, made, want)
	}
	require.ErrorContains(t, SetRetention(ctx, conn, Retention{Requests: 30, Rollups: 7}), "outlive")
	require.ErrorContains(t, SetRetention(ctx, conn, Retention{Legs: -1}), "negative")
}

func TestOnClusterRewritesEveryStatement(t *testing.T) {
	for _, o := range ddl.Objects() {
		require.Equal(t, o.SQL, on("", o.SQL))
		got := on("main", o.SQL)
		require.Regexp(t, o.Name+` ON CLUSTER 'main'( AS)?\n`, got, o.Name)
		if o.Name != "slices_between" {
			require.Regexp(t, `ENGINE = Replicated\w*MergeTree`, got, o.Name)
		}
	}
	for _, c := range ddl.Changes() {
		for _, s := range c.Statements() {
			require.Regexp(t, `^(ALTER TABLE|CREATE OR REPLACE VIEW|CREATE TABLE IF NOT EXISTS) \w+ ON CLUSTER 'main'\s`, on("main", s))
		}
	}
	_, err := UpOn(t.Context(), nil, "x' SYNC")
	require.ErrorContains(t, err, "cluster's name")
}
