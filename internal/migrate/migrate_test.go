package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

func TestUpTwiceAppliesOnce(t *testing.T) {
	conn, ctx := clickhousetest.Open(t), t.Context()
	n, err := Up(ctx, conn)
	require.NoError(t, err)
	require.Equal(t, len(ddl.Objects()), n)
	n, err = Up(ctx, conn)
	require.NoError(t, err)
	require.Zero(t, n)
	var tables uint64
	require.NoError(t, conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = currentDatabase()").Scan(&tables))
	require.EqualValues(t, len(ddl.Objects())+1, tables)
}

func TestUpGoesOnAfterACrash(t *testing.T) {
	conn, ctx := clickhousetest.Open(t), t.Context()
	objects := ddl.Objects()
	_, err := apply(ctx, conn, objects[:3], "")
	require.NoError(t, err)
	require.NoError(t, conn.Exec(ctx, objects[3].SQL)) // made, but not recorded
	n, err := Up(ctx, conn)
	require.NoError(t, err)
	require.Equal(t, len(objects)-3, n)
}

func TestUpRefuses(t *testing.T) {
	conn, ctx := clickhousetest.Open(t), t.Context()
	_, err := Up(ctx, conn)
	require.NoError(t, err)

	objects := ddl.Objects()
	_, err = apply(ctx, conn, objects[:len(objects)-1], "")
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, objects[len(objects)-1].Name)

	objects[0].SQL += " COMMENT 'other'"
	_, err = apply(ctx, conn, objects, "")
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, "0001_requests")
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

func TestOnClusterRewritesEveryObject(t *testing.T) {
	for _, o := range ddl.Objects() {
		require.Equal(t, o.SQL, on("", o.SQL))
		got := on("main", o.SQL)
		require.Regexp(t, o.Name+` ON CLUSTER 'main'( AS)?\n`, got, o.Name)
		if o.Name != "slices_between" {
			require.Regexp(t, `ENGINE = Replicated\w*MergeTree`, got, o.Name)
		}
	}
	_, err := UpOn(t.Context(), nil, "x' SYNC")
	require.ErrorContains(t, err, "cluster's name")
}
