package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// asProgram is set where the test binary is to be the program.
const asProgram = "KVWHATIF_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	clickhouse.RunIfChild()
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		main()
	}
	os.Exit(m.Run())
}

// result is what a command line came to.
type result struct {
	stdout, stderr string
	code           int
}

// program runs a command line in dir with no environment but env.
func program(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append([]string{asProgram + "=1", "HOME=" + dir, "PATH=" + dir}, env...)
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// write puts a file into dir and gives its path.
func write(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
	return path
}

// Each line is a command line, its exit code, and pieces of what it prints.
func TestCommandLines(t *testing.T) {
	nobody := "http://u:p@127.0.0.1:1/kvwhatif" // nothing listens on port 1
	for _, c := range []struct {
		args   string
		code   int
		stdout []string
		stderr []string
	}{
		{args: "rule --bytes 1GiB --link 400Gbit/s --sharers 1,16 --recompute 200ms", stdout: []string{"21.5 ms", "344 ms", "recompute"}},
		{args: "rule", code: 2, stderr: []string{`required flag(s) "bytes", "link", "recompute" not set`}},
		{args: "rule --bytes 1GiB --link 400 --recompute 200ms", code: 2, stderr: []string{`rate "400"`, "Gbit/s"}},
		{args: "rule --bytes 1GiB --link 400Gbit/s --recompute 200ms --sharers 0", code: 2, stderr: []string{"the least is 1"}},
		{args: "--version", stdout: []string{"kvwhatif dev (go1."}},
		{args: "version", stdout: []string{"kvwhatif dev (go1."}},
		{args: "", stdout: []string{"Usage:", "Exit codes: 0 done"}},
		{args: "fetch", code: 2, stderr: []string{`unknown command "fetch"`}},
		{args: "config", stdout: []string{"Usage:"}},
		{args: "config shown", code: 2, stderr: []string{`unknown command "shown" for "kvwhatif config"`}},
		{args: "tail --lines many", code: 2, stderr: []string{"--lines", "see `kvwhatif tail --help`"}},
		{args: "version now", code: 2, stderr: []string{"takes no arguments"}},
		{args: "version --output yaml", code: 2, stderr: []string{`--output is "yaml"`}},
		{args: "config show --config missing.yaml", code: 2, stderr: []string{"read the configuration file: open missing.yaml"}},
		{args: "up --log-level loud", code: 2, stderr: []string{`log.level is "loud"`}},
		{args: "tail", code: 1, stderr: []string{"no kvwhatif ran in kvwhatif-data", "--dir"}},
		{args: "migrate", code: 1, stderr: []string{"no ClickHouse", "--clickhouse"}},
		{args: "migrate --clickhouse " + nobody, code: 1, stderr: []string{"ClickHouse"}},
		{args: "collect", code: 1, stderr: []string{"no Kafka: give --kafka"}},
		{args: "load", code: 1, stderr: []string{"no Kafka: give --kafka"}},
		{args: "serve", code: 1, stderr: []string{"no ClickHouse"}},
		{args: "serve --price-every soon", code: 2, stderr: []string{"serve.price_every (flag --price-every)"}},
		{args: "collect --grpc - --http - --kafka 127.0.0.1:1", code: 2, stderr: []string{"nothing would listen"}},
		{args: "collect --grpc 4317", code: 2, stderr: []string{`collect.grpc: "4317" is not HOST:PORT`}},
		{args: "calibrate", code: 1, stderr: []string{"no ClickHouse", "--dir of a running `kvwhatif up`"}},
		{args: "calibrate --every -1h", code: 2, stderr: []string{"--every"}},
		{args: "calibrate --hold-out 2", code: 2, stderr: []string{"calibrate.hold_out is 2"}},
		{args: "verdict", code: 1, stderr: []string{"no ClickHouse"}},
		{args: "verdict --since 0s", code: 2, stderr: []string{"--since is 0s"}},
		{args: "verdict --since 5m", code: 1, stderr: []string{"is empty", "--since"}},
		{args: "verdict --from yesterday", code: 2, stderr: []string{`--from is "yesterday"`}},
		{args: "verdict --since 1h --from 2026-01-01T00:00:00Z", code: 2, stderr: []string{"since", "from"}},
		{args: "verdict --fail-on bad", code: 2, stderr: []string{`--fail-on has "bad"`, "hurting"}},
		{args: "verdict --fail-on hurting --every 5m", code: 2, stderr: []string{"--every"}},
		{args: "report", code: 1, stderr: []string{"no ClickHouse"}},
		{args: "replay --kafka 127.0.0.1:1", code: 1, stderr: []string{"no executor", "--executor"}},
		{args: "replay --kafka 127.0.0.1:1 --executor http://127.0.0.1:1", code: 1, stderr: []string{"no replay salt", "openssl rand -hex 32"}},
		{args: "replay --rate 0", code: 2, stderr: []string{"replay.rate is 0"}},
		{args: "replay plan", code: 1, stderr: []string{"no Kafka"}},
		{args: "coefficients", stdout: []string{"rollback", "verify"}},
		{args: "coefficients get --url http://127.0.0.1:1", code: 1, stderr: []string{"the coefficient server does not answer"}},
		{args: "coefficients get --url nowhere", code: 1, stderr: []string{"http://HOST:9470"}},
		{args: "coefficients rollback", code: 2, stderr: []string{`"to" not set`}},
		{args: "coefficients rollback --to 1", code: 2, stderr: []string{"give --yes"}},
		{args: "coefficients verify", code: 2, stderr: []string{"takes one argument"}},
		{args: "replay --kafka 127.0.0.1:1 --executor vllm+http://a:1,http://b:2", code: 1, stderr: []string{"replay.executor", "sglang+http"}},
		{args: "probe", stdout: []string{"serve", "run"}},
		{args: "probe serve --address 0.0.0.0:0", code: 1, stderr: []string{"KVWHATIF_PROBE_TOKEN"}},
		{args: "probe serve --max-bytes 0", code: 2, stderr: []string{"--max-bytes"}},
		{args: "probe run 127.0.0.1:1 --link l", code: 2, stderr: []string{`"tier" not set`}},
		{args: "probe run 127.0.0.1:1 --link l --tier tape", code: 2, stderr: []string{`--tier is "tape"`}},
		{args: "probe run 127.0.0.1:1 --link l --tier cpu --sizes much", code: 2, stderr: []string{"--sizes"}},
		{args: "probe run 127.0.0.1:1 --link l --tier cpu --max-bytes 1KiB", code: 2, stderr: []string{"may move 1024"}},
		{args: "probe run 127.0.0.1:1 --link l --tier cpu", code: 1, stderr: []string{"probe serve"}},
		{args: "simulate --scenario rush", code: 2, stderr: []string{`--scenario is "rush"`, "busy"}},
		{args: "simulate --coefficients http://127.0.0.1:9470", code: 2, stderr: []string{"--public-key"}},
		{args: "simulate --requests 40 --seed 7 --run-id r", stdout: []string{"requests", "40", "mean TTFT"}, stderr: []string{"simulate calm"}},
	} {
		t.Run("kvwhatif "+c.args, func(t *testing.T) {
			t.Parallel()
			got := program(t, t.TempDir(), nil, strings.Fields(c.args)...)
			require.Equal(t, c.code, got.code, "%s%s", got.stdout, got.stderr)
			for _, piece := range c.stdout {
				require.Contains(t, got.stdout, piece)
			}
			for _, piece := range c.stderr {
				require.Contains(t, got.stderr, piece)
			}
			if c.code == 0 {
				return
			}
			require.Empty(t, got.stdout, "what failed prints no result")
			require.Regexp(t, regexp.MustCompile(`(?m)^kvwhatif: .+$`), got.stderr)
			require.NotContains(t, got.stderr, "goroutine")
		})
	}
}

// The same seed and run give the same spans and the same numbers.
func TestSimulateIsRepeatable(t *testing.T) {
	run := func() result {
		return program(t, t.TempDir(), nil, "simulate", "--requests", "200", "--scenario", "busy", "--run-id", "r", "--output", "json")
	}
	first := run()
	require.Zero(t, first.code, first.stderr)
	require.Equal(t, first.stdout, run().stdout)
	var s struct {
		Requests int            `json:"requests"`
		Paths    map[string]int `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(first.stdout), &s))
	sum := 0
	for _, n := range s.Paths {
		sum += n
	}
	require.Equal(t, 200, s.Requests)
	require.Equal(t, 200, sum)
}

func TestConfigShowTellsOrigins(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "k.yaml", "replay:\n  rate: 0.5\n  salt: 00112233445566778899aabbccddeeff\n")
	got := program(t, dir, []string{"KVWHATIF_SERVE_ADDRESS=127.0.0.1:7", "KVWHATIF_KAFKA_PASSWORD=hunter2", "KVWHATIF_NOTHING=1"},
		"config", "show", "--config", file, "--dir", "here", "--output", "json")
	require.Zero(t, got.code, got.stderr)
	var list []origin
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &list))
	found := map[string]origin{}
	for _, o := range list {
		found[o.Key] = o
	}
	for key, want := range map[string][2]string{
		"replay.rate":    {"0.5", "file " + file + ":2"},
		"serve.address":  {"127.0.0.1:7", "environment KVWHATIF_SERVE_ADDRESS"},
		"dir":            {"here", "flag --dir"},
		"replay.control": {"0.02", "default"},
	} {
		require.Equal(t, want, [2]string{found[key].Value, found[key].Source}, key)
	}
	require.NotContains(t, got.stdout, "0011223344")
	require.NotContains(t, got.stdout, "hunter2")
}

func TestBadFileIsOneLine(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"key":   {"replay:\n  rat: 0.5\n", ":2: unknown key replay.rat: did you mean replay.rate?"},
		"value": {"replay:\n  rate: often\n", `replay.rate (file`},
		"yaml":  {"replay: [\n", "k.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			got := program(t, dir, nil, "config", "show", "--config", write(t, dir, "k.yaml", c.body))
			requireLine(t, got, exitUsage, c.want)
		})
	}
}

// requireLine holds a failure to one line that has every piece.
func requireLine(t *testing.T, got result, code int, pieces ...string) {
	t.Helper()
	require.Equal(t, code, got.code, "%s%s", got.stdout, got.stderr)
	require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	for _, p := range pieces {
		require.Contains(t, got.stderr, p)
	}
}

// A machine without an engine is told what to do, by every command that needs one.
func TestNoEngine(t *testing.T) {
	for _, command := range []string{"up", "demo"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got := program(t, dir, []string{"XDG_CACHE_HOME=" + filepath.Join(dir, "none")},
				command, "--dir", filepath.Join(dir, "data"), "--log-level", "error")
			require.Equal(t, exitFailed, got.code, "%s%s", got.stdout, got.stderr)
			lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
			last := lines[len(lines)-1]
			require.Contains(t, last, "embedded ClickHouse")
			require.Contains(t, last, "make engine")
			require.Equal(t, 1, strings.Count(got.stderr, "kvwhatif: "), got.stderr)
		})
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o750))
	lock := flock.New(filepath.Join(data, "lock"))
	held, err := lock.TryLock()
	require.NoError(t, err)
	require.True(t, held)
	defer lock.Unlock()
	got := program(t, dir, nil, "up", "--dir", data)
	requireLine(t, got, exitFailed, "directory "+data+" is in use by another kvwhatif", "--dir")
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	got := program(t, t.TempDir(), nil, "simulate", "--requests", "10", "--legs", l.Addr().String())
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "listen for legs")
	require.Contains(t, got.stderr, "choose another with --legs")
}

// A signal that ends a run is told by the exit code, as shells do.
func TestInterruptedRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 130, run(ctx, []string{"simulate", "--requests", "10"}))
}

// Shells complete the values of enumerations.
func TestCompletion(t *testing.T) {
	for args, want := range map[string][]string{
		"simulate --scenario ": {"calm", "busy"},
		"simulate --policy ":   {"fetch-all", "never", "seed-rule", "fitted"},
		"verdict --fail-on ":   {"hurting", "unknown"},
		"verdict --tier ":      {"gpu", "object"},
		"load --anchor ":       {"contract", "engine"},
		"version --output ":    {"text", "json"},
		"up --log-level ":      {"debug", "error"},
		"up --log-format ":     {"text", "json"},
	} {
		fields := append(append([]string{"__complete"}, strings.Fields(args)...), "")
		got := program(t, t.TempDir(), nil, fields...)
		require.Zero(t, got.code, got.stderr)
		for _, w := range want {
			require.Contains(t, strings.Split(got.stdout, "\n"), w, args)
		}
	}
}
