// Package migratetest gives tests of readers a database with its tables, on every
// kind of server that they may meet.
package migratetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

// Each runs the test on one server over HTTP, on one over the native protocol, and
// on two shards, with empty tables each.
func Each(t *testing.T, test func(t *testing.T, conn *clickhouse.Conn)) {
	t.Run("one server", func(t *testing.T) { test(t, open(t, clickhousetest.DSN(t))) })
	t.Run("native protocol", func(t *testing.T) { test(t, open(t, clickhousetest.Native(t))) })
	t.Run("two shards", func(t *testing.T) { test(t, Shards(t)) })
}

func open(t testing.TB, dsn string) *clickhouse.Conn {
	t.Helper()
	conn, err := clickhouse.Open(context.Background(), dsn)
	if err == nil {
		t.Cleanup(func() { conn.Close() })
		_, err = migrate.Up(context.Background(), conn)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// keys are by what rows find their shard here: all of one key lie together, as load
// sees to, and rows of rollups lie where they say.
var keys = map[string]string{
	"requests": "reinterpretAsUInt64(substring(id, 9, 8))", "slices": "shard", "worst": "shard",
	"transfers": "cityHash64(trace, span)", "replays": "cityHash64(trace, span)", "waiting": "cityHash64(trace, span)",
}

// Shards is the tables over two shards. Other than those that migrate makes, they
// take inserts, so that a test writes rows as it does on one server.
func Shards(t testing.TB) *clickhouse.Conn {
	t.Helper()
	dsn := clickhousetest.Pair(t).DSN(t)
	if _, err := (migrate.Sharded{DSN: dsn, Cluster: clickhousetest.Cluster}).Up(context.Background()); err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	local := clickhouse.LocalDatabase(conn.Database())
	for table, key := range keys {
		var columns string
		query := "SELECT extract(create_table_query, '^[^(]+(\\\\([\\\\s\\\\S]+\\\\)) ENGINE') FROM system.tables WHERE database = currentDatabase() AND name = ?"
		err := conn.QueryRow(context.Background(), query, table).Scan(&columns)
		if err == nil {
			err = conn.Exec(context.Background(), fmt.Sprintf("CREATE OR REPLACE TABLE %s %s ENGINE = Distributed('%s', %s, %s, %s)",
				table, columns, clickhousetest.Cluster, local, table, key))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return conn
}
