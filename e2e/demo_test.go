package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A demo of the first demoRequests of the trace: half of them under the default
// policy, half under each of the policies compared, on each of two links.
const (
	demoRequests = 1000
	demoArms     = 2 * 5
	demoArmRuns  = 4
	demoGroups   = 2*1 + demoArms + 2*(demoArmRuns-1) // of an arm's further runs only the fitted ones send spans
)

// demoAnswer is what the test reads of a demo's JSON.
type demoAnswer struct {
	Report   string `json:"report"`
	Verdicts []struct {
		Link, State, Reason string
	} `json:"verdicts"`
	Arms []struct {
		Policy, Link string
		Requests     int
	} `json:"arms"`
	Coverage struct {
		Accepted, Lost, Doubled *float64
	} `json:"coverage"`
}

func runDemo(t *testing.T, dir string) (a demoAnswer) {
	t.Helper()
	out := done(t, "demo", "--requests", fmt.Sprint(demoRequests), "--dir", dir, "--output", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	return a
}

// TestDemo runs a small demo twice in one directory, and looks at everything that
// it leaves after each.
func TestDemo(t *testing.T) {
	requireEngine(t)
	dir := t.TempDir()
	answer := runDemo(t, dir)
	checkAnswer(t, answer)
	checkPage(t, answer.Report)
	checkTruthFile(t, filepath.Join(dir, "truth.json"))
	first := demoRows(t, dir, true)

	checkAnswer(t, runDemo(t, dir))
	require.Equal(t, first, demoRows(t, dir, false), "a second run in the same directory changed rows")
}

func checkAnswer(t *testing.T, a demoAnswer) {
	t.Helper()
	require.NotNil(t, a.Coverage.Accepted)
	require.EqualValues(t, demoRequests, *a.Coverage.Accepted)
	require.NotNil(t, a.Coverage.Lost)
	require.Zero(t, *a.Coverage.Lost)
	require.NotNil(t, a.Coverage.Doubled)
	require.Zero(t, *a.Coverage.Doubled)
	links := map[string]bool{}
	for _, v := range a.Verdicts {
		links[v.Link] = true
		require.NotEmpty(t, v.State)
		if v.State == "unknown" {
			require.NotEmpty(t, v.Reason, "unknown without a reason")
		}
	}
	require.Len(t, links, 2)
	require.Len(t, a.Arms, demoArms)
	for _, arm := range a.Arms {
		require.Equal(t, demoArmRuns*demoRequests/2, arm.Requests, arm.Policy)
	}
}

// outside is what would make a browser ask a server for something.
var outside = regexp.MustCompile(`(?i)(src|href|action|data)\s*=\s*["']?(https?:)?//|url\(\s*["']?(https?:)?//|@import|fetch\(|XMLHttpRequest|EventSource|WebSocket`)

func checkPage(t *testing.T, path string) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(strings.ToLower(string(page)), "<!doctype html>"))
	require.Contains(t, string(page), "</html>")
	require.Empty(t, outside.FindString(string(page)), "the report asks for something outside of itself")
}

func checkTruthFile(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var lines []struct {
		Link, Path, Alternative string
		Requests                int
	}
	require.NoError(t, json.Unmarshal(raw, &lines))
	require.NotEmpty(t, lines)
	for _, l := range lines {
		require.Positive(t, l.Requests)
	}
}

// demoRows checks what the tables of a demo hold, and gives what a second demo
// must not change.
func demoRows(t *testing.T, dir string, thorough bool) []string {
	t.Helper()
	up := startUp(t, dir, nil)
	d := openTables(t, up.at.ClickHouse)
	if thorough {
		checkGroups(t, d)
		checkStages(t, d)
		checkReplays(t, d)
		checkCommands(t, dir)
	}
	d.slicesEqualARecount()
	var out []string
	for _, q := range []string{
		"SELECT minute, hex(id), start, length(spans), length(contents), ttft, benefit FROM requests FINAL ORDER BY minute, id",
		"SELECT start, hex(trace), span, bytes, duration FROM transfers FINAL ORDER BY start, trace, span",
		"SELECT minute, policy, model, path, tier, link, size_bucket, n, unknown, hurt, round(sum_ttft, 6), round(sum_benefit, 6) " +
			"FROM slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00') ORDER BY ALL",
		"SELECT start, hex(trace), span, path, leg, inclusion, ttft FROM replays FINAL ORDER BY start, trace, span",
	} {
		rows := d.lines(q)
		require.NotEmpty(t, rows, q)
		out = append(out, rows...)
	}
	up.stop(t)
	return out
}

// checkGroups wants each policy's requests on each link, once.
func checkGroups(t *testing.T, d *tables) {
	t.Helper()
	require.Len(t, d.lines("SELECT service, policy FROM requests FINAL GROUP BY service, policy"), demoGroups)
	require.Empty(t, d.lines(fmt.Sprintf("SELECT service, policy, count() AS n, uniqExact(request_id) AS u FROM requests FINAL "+
		"GROUP BY service, policy HAVING n != %[1]d OR u != %[1]d", demoRequests/2)))
	require.Zero(t, d.number("SELECT count() FROM requests FINAL WHERE kind != 'contract' OR length(spans) != 1 OR length(contents) != 1"))
	require.Zero(t, d.number("SELECT count() FROM requests FINAL WHERE start > now64(9) OR minute != toStartOfMinute(start)"))
}

// checkStages wants TTFT = GPU queue + exposed stall + restore + prefill +
// remainder in every row, to what a 32-bit float can tell.
func checkStages(t *testing.T, d *tables) {
	t.Helper()
	const stages = "toFloat64(ifNull(gpu_queue, 0)) + ifNull(exposed_stall, 0) + ifNull(restore, 0) + ifNull(prefill, 0) + remainder"
	require.Zero(t, d.number("SELECT countIf(ttft IS NULL OR remainder IS NULL OR prefill IS NULL) FROM requests FINAL"))
	require.Zero(t, d.number("SELECT countIf(abs("+stages+" - ttft) > 1e-6 * greatest(1, ttft)) FROM requests FINAL"))
	require.Zero(t, d.number("SELECT countIf(abs("+stages+" - ttft) > 1e-6 * greatest(1, ttft)) FROM replays FINAL"))
	require.Zero(t, d.number("SELECT countIf(NOT abs(sum_gpu_queue + sum_exposed_stall + sum_restore + sum_prefill + sum_remainder - sum_ttft_stages) <= 1e-6 * n_stages * 10) "+
		"FROM slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00')"))
}

// checkReplays wants each leg to hang on a request, and none to be one.
func checkReplays(t *testing.T, d *tables) {
	t.Helper()
	require.Positive(t, d.number("SELECT count() FROM replays FINAL"))
	require.Zero(t, d.number("SELECT count() FROM replays FINAL WHERE id NOT IN (SELECT id FROM requests)"))
	require.Zero(t, d.number("SELECT count() FROM requests FINAL WHERE hasAny(spans, (SELECT groupArray(span) FROM replays))"))
	require.Zero(t, d.number("SELECT count() FROM requests FINAL WHERE startsWith(request_id, 'kvwhatif-replay-')"))
	require.Zero(t, d.number("SELECT countIf(NOT (inclusion > 0 AND inclusion <= 1) OR leg = '') FROM replays FINAL"))
}

// checkCommands asks a running program by what its directory knows.
func checkCommands(t *testing.T, dir string) {
	t.Helper()
	page := filepath.Join(t.TempDir(), "r.html")
	done(t, "report", "--dir", dir, "--since", "5h", "--out", page)
	checkPage(t, page)
	var answer demoAnswer
	require.NoError(t, json.Unmarshal([]byte(done(t, "verdict", "--dir", dir, "--since", "5h", "--rate", "0.16", "--control", "0.05", "--dry-run", "--output", "json")), &answer))
	require.NotEmpty(t, answer.Verdicts)
	lines := strings.Split(strings.TrimSpace(done(t, "tail", "--dir", dir, "--from-beginning", "--lines", "5", "--output", "json")), "\n")
	require.Len(t, lines, 5)
	for _, line := range lines {
		require.True(t, json.Valid([]byte(line)), line)
	}
	require.True(t, json.Valid([]byte(done(t, "coefficients", "history", "--dir", dir, "--output", "json"))))
	require.Contains(t, done(t, "config", "show"), "collect.grpc")
}
