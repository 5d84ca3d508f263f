package clickhouse_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
)

func TestMain(m *testing.M) {
	helperProcess()
	clickhousetest.Main(m)
}

func TestEmbeddedAnswersAndStartsFast(t *testing.T) {
	began := time.Now()
	conn := clickhousetest.Open(t)
	t.Logf("first answer after %v", time.Since(began))
	var version string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT version()").Scan(&version))
	t.Logf("version %s", version)
	require.True(t, conn.HTTP())
	var async string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT toString(getSetting('async_insert'))").Scan(&async))
	require.Contains(t, []string{"0", "false"}, async)
}

func TestReaderMayOnlySelect(t *testing.T) {
	server := clickhousetest.Server(t)
	ctx := t.Context()
	writer, err := clickhouse.Open(ctx, server.DSN())
	require.NoError(t, err)
	defer writer.Close()
	require.NoError(t, writer.Exec(ctx, "CREATE TABLE IF NOT EXISTS seen (n UInt64) ENGINE = MergeTree ORDER BY n"))
	require.NoError(t, writer.Exec(ctx, "INSERT INTO seen VALUES (7)"))
	reader, err := clickhouse.Open(ctx, server.ReaderDSN())
	require.NoError(t, err)
	defer reader.Close()
	var n uint64
	require.NoError(t, reader.QueryRow(ctx, "SELECT max(n) FROM seen").Scan(&n))
	require.EqualValues(t, 7, n)
	for _, refused := range []string{
		"INSERT INTO seen VALUES (8)",
		"DROP TABLE seen",
		"CREATE TABLE mine (n UInt8) ENGINE = Memory",
		"CREATE TEMPORARY TABLE mine (n UInt8)",
		"INSERT INTO FUNCTION file('x.csv', 'CSV', 'n UInt8') SELECT 1",
		"SELECT * FROM file('../config.xml', 'RawBLOB')",
		"SYSTEM SHUTDOWN",
	} {
		err := reader.Exec(ctx, refused)
		var e *clickhouse.Error
		require.ErrorAs(t, clickhouse.Explain(err), &e, refused)
		require.Equal(t, clickhouse.Permanent, e.Class, "%s: %v", refused, e)
	}
}

// The user without a password is the server's own: nobody else on the machine can
// see or do anything by it.
func TestTheDefaultUserMayDoNothing(t *testing.T) {
	dsn, err := url.Parse(clickhousetest.Server(t).DSN())
	require.NoError(t, err)
	dsn.User = nil
	for _, refused := range []string{"SELECT count() FROM system.users", "CREATE TABLE mine (n UInt8) ENGINE = Memory", "DROP DATABASE kvwhatif", "SYSTEM SHUTDOWN"} {
		answer, err := http.Post("http://"+dsn.Host+"/", "text/plain", strings.NewReader(refused))
		require.NoError(t, err)
		said, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		require.NoError(t, err)
		require.Contains(t, string(said), "ACCESS_DENIED", refused)
	}
}

func TestServerIsRestartedWithItsRows(t *testing.T) {
	engine := clickhousetest.RequireEngine(t)
	server, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{Dir: t.TempDir(), Engine: engine})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	conn, err := clickhouse.Open(t.Context(), server.DSN())
	require.NoError(t, err)
	defer conn.Close()
	insert(t, conn, 0)
	kill(t, server.PID())
	var rows uint64
	err = clickhouse.Retry(t.Context(), func(err error) { t.Log(err) }, func(ctx context.Context) error {
		return conn.QueryRow(ctx, "SELECT count() FROM rows").Scan(&rows)
	})
	require.NoError(t, err)
	require.EqualValues(t, 1000, rows)
	require.Eventually(t, func() bool { return server.Restarts() == 1 }, 10*time.Second, time.Millisecond)
	insert(t, conn, 1000)
}

func insert(t *testing.T, conn *clickhouse.Conn, from uint64) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS rows (n UInt64) ENGINE = MergeTree ORDER BY n"))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO rows")
	require.NoError(t, err)
	for n := from; n < from+1000; n++ {
		require.NoError(t, batch.Append(n))
	}
	require.NoError(t, batch.Send())
}

func TestStopTwiceAndDone(t *testing.T) {
	engine := clickhousetest.RequireEngine(t)
	server, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{Dir: t.TempDir(), Engine: engine})
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, server.Stop(t.Context()))
	<-server.Done()
	_, err = clickhouse.Open(t.Context(), server.DSN())
	require.True(t, clickhouse.IsRetryable(err), "%v", err)
	require.ErrorContains(t, err, "connection refused")
}

func TestStartRefuses(t *testing.T) {
	server := clickhousetest.Server(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := clickhouse.StartEmbedded(ctx, clickhouse.EmbeddedConfig{Dir: t.TempDir(), Port: server.Port()})
	require.ErrorContains(t, err, "is taken by another program")
	_, err = clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{})
	require.ErrorContains(t, err, "no directory given")
	_, err = clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{
		Dir: t.TempDir(), Engine: clickhouse.Engine{Library: "/dev/null"},
	})
	require.ErrorContains(t, err, "load the ClickHouse library")
	require.False(t, errors.Is(err, clickhouse.ErrNoEngine))
}

// A directory has one server: a second one says so, and leaves the first alone.
func TestStartRefusesADirectoryInUse(t *testing.T) {
	engine := clickhousetest.RequireEngine(t)
	config := clickhouse.EmbeddedConfig{Dir: t.TempDir(), Engine: engine}
	server, err := clickhouse.StartEmbedded(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	_, err = clickhouse.StartEmbedded(t.Context(), config)
	t.Log(err)
	require.ErrorContains(t, err, "the server ended: ")
	conn, err := clickhouse.Open(t.Context(), server.DSN())
	require.NoError(t, err)
	defer conn.Close()
	require.Zero(t, server.Restarts())
}
