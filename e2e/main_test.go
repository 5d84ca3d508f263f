package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// program is the path of the built kvwhatif.
var program string

func TestMain(m *testing.M) {
	clickhouse.RunIfChild()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kvwhatif-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	defer kafkatest.StopShared()
	program = filepath.Join(dir, "kvwhatif")
	args := append(append([]string{"build"}, buildFlags...), "-o", program, "github.com/kvwhatif/kvwhatif/cmd/kvwhatif")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build kvwhatif: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// requireEngine skips on a machine without an embedded ClickHouse, and fails
// under CI.
func requireEngine(t *testing.T) {
	t.Helper()
	clickhousetest.RequireEngine(t)
}
