package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
)

// fakeBinary stands for an installed clickhouse: `clickhouse server
// --config-file=DIR/config.xml` serves, by the library, what the configuration
// says. It holds a pipe open in the parent's place, as a binary watches none.
const fakeBinary = `#!/bin/sh
[ "$1" = server ] && [ "$2" = --config-file=%[1]s/config.xml ] || exit 9
echo $$ >%[1]s/pid
mkfifo %[1]s/fifo.$$
exec 3<>%[1]s/fifo.$$
exec %[2]s clickhouse-child --library=%[3]s --dir=%[1]s --port=%[4]d
`

func TestInstalledBinaryIsRunAndSupervised(t *testing.T) {
	engine := clickhousetest.RequireEngine(t)
	if engine.Library == "" {
		t.Skip("this stands in for a binary by the library, which is not here")
	}
	dir, port := t.TempDir(), freePort(t)
	self, err := os.Executable()
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "clickhouse")
	require.NoError(t, os.WriteFile(binary, fmt.Appendf(nil, fakeBinary, dir, self, engine.Library, port), 0o755))
	server, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{
		Dir: dir, Port: port, Engine: clickhouse.Engine{Binary: binary},
	})
	require.NoError(t, err)
	conn, err := clickhouse.Open(t.Context(), server.DSN())
	require.NoError(t, err)
	defer conn.Close()
	insert(t, conn, 0)

	first := pidIn(t, dir)
	kill(t, server.PID()) // the process between us and the binary
	require.Eventually(t, func() bool { return gone(first) }, 10*time.Second, time.Millisecond, "the binary ends with it")
	var rows uint64
	require.NoError(t, clickhouse.Retry(t.Context(), nil, func(ctx context.Context) error {
		return conn.QueryRow(ctx, "SELECT count() FROM rows").Scan(&rows)
	}))
	require.EqualValues(t, 1000, rows)
	second := pidIn(t, dir)
	require.NotEqual(t, first, second)
	require.NoError(t, server.Stop(t.Context()))
	require.True(t, gone(second))
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func pidIn(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(strings.TrimSpace(string(text)), &pid)
	require.NoError(t, err)
	return pid
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, notes := 0, 0
		began := time.Now()
		err := clickhouse.Retry(t.Context(), func(error) { notes++ }, func(context.Context) error {
			if calls++; calls < 4 {
				return syscall.ECONNREFUSED
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, notes)
		require.Equal(t, 700*time.Millisecond, time.Since(began), "0.1 + 0.2 + 0.4 s")

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = clickhouse.Retry(ctx, nil, func(context.Context) error { return syscall.ECONNREFUSED })
		require.True(t, clickhouse.IsRetryable(err))

		permanent := &clickhouse.Error{Class: clickhouse.Permanent, Text: "no", Err: errors.New("no")}
		calls = 0
		err = clickhouse.Retry(t.Context(), nil, func(context.Context) error { calls++; return permanent })
		require.Equal(t, permanent, err)
		require.Equal(t, 1, calls)
	})
}
