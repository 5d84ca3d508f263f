package migrate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

func TestShards(t *testing.T) {
	pair, ctx := clickhousetest.Pair(t), t.Context()
	s := Sharded{DSN: pair.DSN(t), Cluster: clickhousetest.Cluster}
	pending, err := s.Pending(ctx)
	require.NoError(t, err)
	done, err := s.Up(ctx)
	require.NoError(t, err)
	require.Equal(t, pending, done[:len(pending)])
	require.Len(t, done, len(pending)+2*len(ddl.Objects()))
	done, err = s.Up(ctx)
	require.NoError(t, err)
	require.Empty(t, done)

	name, err := clickhouse.DatabaseOf(clickhouse.Split(s.DSN)[0])
	require.NoError(t, err)
	local, err := clickhouse.OpenEach(ctx, s.DSN, clickhouse.LocalDatabase(name))
	require.NoError(t, err)
	over, err := clickhouse.OpenEach(ctx, s.DSN, name)
	require.NoError(t, err)
	for _, c := range append(local, over...) {
		defer c.Close()
	}

	// What is written through a table over all is on the first shard at once, and
	// seen from both.
	for i, c := range over {
		require.NoError(t, c.Exec(ctx, "INSERT INTO coefficients (revision, payload) VALUES (?, 'x')", i))
	}
	require.Equal(t, "2\n", lines(t, local[0], "SELECT count() FROM coefficients"))
	require.Equal(t, "0\n", lines(t, local[1], "SELECT count() FROM coefficients"))
	require.Equal(t, "2\n", lines(t, over[1], "SELECT count() FROM coefficients FINAL"))
	require.Error(t, over[0].Exec(ctx, "INSERT INTO requests (minute) VALUES (0)"), "load puts these on their shard")

	// A changed table is changed over all too.
	require.NoError(t, local[0].Exec(ctx, "ALTER TABLE waiting ADD COLUMN more UInt8"))
	done, err = s.Up(ctx)
	require.NoError(t, err)
	require.Len(t, done, 1)
	require.Contains(t, lines(t, over[0], "DESCRIBE waiting"), "more\tUInt8")

	require.NoError(t, s.SetRetention(ctx, Retention{Requests: 3}))
	for _, c := range local {
		require.Contains(t, lines(t, c, "SHOW CREATE TABLE requests"), "toIntervalDay(3)")
	}

	list := clickhouse.Split(s.DSN)
	_, err = Sharded{DSN: strings.Join([]string{list[1], list[0]}, ", "), Cluster: s.Cluster}.Up(ctx)
	require.ErrorIs(t, err, ErrShards)
	require.ErrorContains(t, err, "shard 2 of 2")
	_, err = Sharded{DSN: s.DSN, Cluster: "elsewhere"}.Up(ctx)
	require.Error(t, err)
}
