package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// program is the path of the built kvwhatif. It is built without the race
// detector: its processes are what is killed, and e2e runs them with it.
var program string

func TestMain(m *testing.M) {
	clickhouse.RunIfChild()
	if len(os.Args) > 1 && os.Args[1] == holderCommand {
		os.Exit(holderMain(os.Args[2:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kvwhatif-crash")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	defer kafkatest.StopShared()
	program = filepath.Join(dir, "kvwhatif")
	cmd := exec.Command("go", "build", "-o", program, "github.com/kvwhatif/kvwhatif/cmd/kvwhatif")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build kvwhatif: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
