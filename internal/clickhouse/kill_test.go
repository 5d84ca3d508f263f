package clickhouse_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
)

// helperDir names the directory of the server that this test binary, started
// again as a program, runs until it is killed.
const helperDir = "KVWHATIF_TEST_EMBEDDED_DIR"

// started is what the helper prints when its server answers.
type started struct {
	DSN string
	PID int
}

// helperProcess is a program with an embedded server that waits to be killed.
func helperProcess() {
	dir := os.Getenv(helperDir)
	if dir == "" || (len(os.Args) > 1 && os.Args[1] == clickhouse.ChildCommand) {
		return
	}
	server, err := clickhouse.StartEmbedded(context.Background(), clickhouse.EmbeddedConfig{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(started{DSN: server.DSN(), PID: server.PID()})
	select {}
}

func TestServerEndsWithAKilledParentAndKeepsItsRows(t *testing.T) {
	clickhousetest.RequireEngine(t)
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), helperDir+"="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var s started
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(line, &s))
	conn, err := clickhouse.Open(t.Context(), s.DSN)
	require.NoError(t, err)
	defer conn.Close()
	insert(t, conn, 0)

	kill(t, parent.Process.Pid)
	_ = parent.Wait()
	require.Eventually(t, func() bool { return gone(s.PID) }, 10*time.Second, time.Millisecond)

	server, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{Dir: dir})
	require.NoError(t, err)
	defer server.Stop(context.Background())
	again, err := clickhouse.Open(t.Context(), server.DSN())
	require.NoError(t, err)
	defer again.Close()
	var rows uint64
	require.NoError(t, again.QueryRow(t.Context(), "SELECT count() FROM rows").Scan(&rows))
	require.EqualValues(t, 1000, rows)
}

func kill(t *testing.T, pid int) {
	t.Helper()
	require.NotZero(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// gone says that no process has this id, or only one that waits to be reaped.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	var id int
	var name, state string
	_, err = fmt.Sscan(string(stat), &id, &name, &state)
	return err == nil && state == "Z"
}
