//go:build nightly && linux

package clickhouse_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
)

// A full disk is said so, is retryable, and loses nothing that was inserted.
// It needs the right to mount a small file system.
func TestFullDiskIsRetryable(t *testing.T) {
	engine := clickhousetest.RequireEngine(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	server, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{Dir: filepath.Join(disk, "ch"), Engine: engine})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	conn, err := clickhouse.Open(t.Context(), server.DSN())
	require.NoError(t, err)
	defer conn.Close()
	insert(t, conn, 0)
	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	err = conn.Exec(t.Context(), "INSERT INTO rows SELECT number FROM numbers(10000000)")
	require.ErrorContains(t, clickhouse.Explain(err), "the disk of ClickHouse is full")
	require.True(t, clickhouse.IsRetryable(err))
	require.NoError(t, os.Remove(filler))
	insert(t, conn, 1000)
	var rows uint64
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count() FROM rows").Scan(&rows))
	require.EqualValues(t, 2000, rows)
}

// fill writes until there is no space.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		if _, err := f.Write(block); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			return
		}
	}
}
