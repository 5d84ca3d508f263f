package e2e

import (
	"errors"

	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

// TestFullDisk fills the disk beneath a running program. Senders are told to try
// again; once there is space all goes on, and nothing that was accepted is lost.
func TestFullDisk(t *testing.T) {
	requireEngine(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=192m"); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	up := startUp(t, filepath.Join(disk, "data"), nil)
	const before, all = 1000, 6000
	s := newSender(t, up.at.GRPC, all)
	require.NoError(t, s.send(t.Context(), 0, before))
	openTables(t, up.at.ClickHouse).eventually(before, "SELECT count() FROM requests FINAL")

	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	sent := make(chan error, 1)
	go func() { sent <- s.send(t.Context(), before, all) }()
	eventually(t, func() error {
		fill(t, filler)
		if message, ok := s.failed(codes.Unavailable); ok {
			require.Contains(t, message, "disk may be full")
			return nil
		}
		if s.accepted.Load()*batchSpans >= all {
			require.Fail(t, "all was accepted on a full disk")
		}
		return errors.New("no sender was told to wait")
	})
	require.True(t, up.running(), tail(up.said(), 2000))
	t.Logf("told to wait after %d of %d batches", s.accepted.Load(), all/batchSpans)

	require.NoError(t, os.Remove(filler))
	require.NoError(t, <-sent)
	checkOnce(t, openTables(t, up.at.ClickHouse), all)
	checkDiskLines(t, up.said())
	up.stop(t)
}

// checkDiskLines wants the log to name the disk, and not to repeat itself without
// end.
func checkDiskLines(t *testing.T, said string) {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^.*(disk|space).*$`).FindAllString(said, -1)
	require.NotEmpty(t, lines, "the log does not say that the disk is full")
	t.Logf("%d lines of the log are about the disk; the first: %.300s", len(lines), lines[0])
	require.NotContains(t, said, "panic")
}

// fill writes until there is no space.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			return
		}
	}
}
