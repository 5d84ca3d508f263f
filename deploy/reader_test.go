package deploy_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

// Grafana's user, as a real server reads the file: it may select, set the
// settings of its query, and nothing else.
func TestReaderMayOnlySelect(t *testing.T) {
	clickhousetest.RequireEngine(t)
	// Under another name, for an embedded server has a reader of its own.
	users := strings.NewReplacer("<reader>", "<grafana>", "</reader>", "</grafana>", "<profile>reader<", "<profile>grafana<").
		Replace(readFile(t, composeDir, "clickhouse", "reader.xml"))
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "users.d"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "users.d", "reader.xml"), []byte(users), 0o600))
	t.Setenv("CLICKHOUSE_READER_PASSWORD", "of-the-reader")
	server, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	writer, err := clickhouse.Open(t.Context(), server.DSN())
	require.NoError(t, err)
	defer writer.Close()
	_, err = migrate.Up(t.Context(), writer)
	require.NoError(t, err)

	open := func(password string) (*clickhouse.Conn, error) {
		u, err := url.Parse(server.DSN())
		require.NoError(t, err)
		u.User = url.UserPassword("grafana", password)
		return clickhouse.Open(t.Context(), u.String())
	}
	_, err = open("wrong")
	require.Error(t, err)
	reader, err := open("of-the-reader")
	require.NoError(t, err)
	defer reader.Close()
	var n uint64
	require.NoError(t, reader.QueryRow(t.Context(), "SELECT count() FROM requests FINAL SETTINGS max_execution_time = 5").Scan(&n))
	var grants uint64
	require.NoError(t, reader.QueryRow(t.Context(), "SELECT count() FROM system.grants WHERE user_name = 'grafana' AND access_type != 'SELECT'").Scan(&grants))
	require.Zero(t, grants, "readonly is not all that holds it")
	for _, statement := range []string{
		"INSERT INTO positions (topic, partition, next, at) VALUES ('t', 0, 1, now64(9))",
		"CREATE TABLE own (a Int8) ENGINE = Memory", "DROP TABLE requests", "ALTER TABLE requests DELETE WHERE 1",
		"SET readonly = 0", "CREATE USER other", "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'a String')",
	} {
		err := reader.Exec(t.Context(), statement)
		require.Error(t, err, statement)
		require.Regexp(t, `Not enough privileges|readonly|read-only`, err.Error(), statement)
	}
}
