package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEngineDiesDuringADemo kills the database at two stages of a demo, which then
// completes with everything in the tables once.
func TestEngineDiesDuringADemo(t *testing.T) {
	requireEngine(t)
	dir := t.TempDir()
	demo := launch(t, nil, "demo", "--requests", "1000", "--dir", dir, "--output", "json")
	for _, stage := range []string{"fetch every prefix, calm", "never-fetch, calm"} {
		eventually(t, func() error {
			if strings.Contains(demo.said(), stage) || !demo.running() {
				return nil
			}
			return errors.New("the demo does not come to: " + stage)
		})
		if demo.running() {
			demo.killDatabase(t)
		}
	}
	demo.waitOr(func() { require.Fail(t, "the demo hangs") })
	require.Zero(t, demo.cmd.ProcessState.ExitCode(), tail(demo.said(), 3000))
	require.Contains(t, demo.said(), "embedded ClickHouse ended; starting it again")
	out, err := os.ReadFile(demo.stdout)
	require.NoError(t, err)
	var answer demoAnswer
	require.NoError(t, json.Unmarshal(out, &answer))
	checkAnswer(t, answer)
	demoRows(t, dir, true)
}
