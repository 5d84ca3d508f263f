package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every row of OTLP.md names a test of the receiver that is there.
func TestOTLPRowsAreTested(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "collector/otlp/*_test.go"))
	require.NoError(t, err)
	there := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range testFunc.FindAllStringSubmatch(string(raw), -1) {
			there[m[1]] = true
		}
	}
	musts, rows := 0, 0
	for _, line := range strings.Split(read(t, "docs/OTLP.md"), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || strings.Contains(line, "| test |") {
			continue
		}
		rows++
		if cells[0] == "MUST" {
			musts++
		}
		named := quoted.FindAllStringSubmatch(cells[len(cells)-1], -1)
		require.NotEmpty(t, named, "no test: %s", line)
		for _, m := range named {
			require.True(t, there[m[1]], "%s is not a test of collector/otlp: %s", m[1], line)
		}
	}
	require.Greater(t, musts, 20)
	require.Greater(t, rows, 50)
}
