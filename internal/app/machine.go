package app

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// machine says what the figures were measured on.
func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if name, ok := strings.CutPrefix(s.Text(), "model name"); ok {
				model = strings.TrimLeft(name, "\t :")
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.NumCPU(), runtime.GOOS)
}

// named is a server-side parameter of a query.
func named(name string, value any) any { return ch.Named(name, value) }
