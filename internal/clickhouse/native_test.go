package clickhouse_test

import (
	"context"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
)

func TestInsertColumnsOverTheNativeProtocol(t *testing.T) {
	conn, err := clickhouse.Open(t.Context(), clickhousetest.Native(t))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Exec(t.Context(), "CREATE TABLE t (n SimpleAggregateFunction(max, UInt32), e Array(Enum8('a' = 1, 'b' = 2)), s LowCardinality(String), d UInt8 DEFAULT 7) ENGINE = MergeTree ORDER BY ()"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n := proto.ColUInt32{5}
	e := new(proto.ColInt8).Array()
	e.Append([]int8{1, 2})
	s := new(proto.ColStr).LowCardinality()
	s.Append("x")
	require.NoError(t, conn.InsertColumns(ctx, "INSERT INTO t (n, e, s)", []proto.InputColumn{{Name: "n", Data: n}, {Name: "e", Data: e}, {Name: "s", Data: s}}))
	var got string
	require.NoError(t, conn.QueryRow(ctx, "SELECT toString((n, e, s, d)) FROM t").Scan(&got))
	require.Equal(t, "(5,['a','b'],'x',7)", got)

	err = conn.InsertColumns(ctx, "INSERT INTO nowhere (n)", []proto.InputColumn{{Name: "n", Data: n}})
	require.ErrorContains(t, err, "unknown ClickHouse table")
	require.False(t, clickhouse.IsRetryable(err))
}
