//go:build nightly && linux

package kafka_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// When the embedded broker's disk is full it refuses, retryably; nothing that
// it has acknowledged is lost, and it goes on when there is room.
func TestFullDiskIsRetryable(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	dir := filepath.Join(disk, "kafka")
	broker := embedded(t, dir, "")
	topic := topic(t, broker.Cluster(), 1)
	w := writer(t, broker.Cluster())
	filler := filepath.Join(disk, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 8<<20), 0o600))
	acknowledged := 0
	for {
		require.Less(t, acknowledged, 100, "the disk does not fill")
		err := w.Produce(t.Context(), topic, kafka.Message{Value: make([]byte, 500_000)})
		if err != nil {
			require.True(t, kafka.IsRetryable(err))
			require.ErrorContains(t, err, "disk may be full")
			break
		}
		acknowledged++
	}
	require.NoError(t, os.Remove(filler))
	require.NoError(t, w.Produce(t.Context(), topic, kafka.Message{Value: make([]byte, 500_000)}))
	broker.Stop()
	checkSpread(t, embedded(t, dir, broker.Addr()).Cluster(), topic, acknowledged+1, 1)
}
