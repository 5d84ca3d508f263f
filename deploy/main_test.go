// Package deploy_test holds what operators are given against the program itself:
// every command line, variable and settings file in here is one that the binary
// takes.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// root is the root of the repository, seen from this package.
const root = ".."

// composeDir is where the files of compose are.
const composeDir = "compose"

// testVersion is what the binary was told that its version is.
const testVersion = "v0.0.0-deploytest"

// binary is the path of kvwhatif, built as the image builds it.
var binary string

func TestMain(m *testing.M) {
	clickhouse.RunIfChild()
	os.Exit(withBinary(m.Run))
}

func withBinary(tests func() int) int {
	dir, err := os.MkdirTemp("", "kvwhatif-deploy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "kvwhatif")
	build := exec.Command("go", "build", "-ldflags", "-X "+versionSymbol+"="+testVersion, "-o", binary, "./cmd/kvwhatif")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build kvwhatif: %v\n%s", err, out)
		return 1
	}
	return tests()
}

// run gives what a command line prints and its exit code, in an empty directory
// and with no environment but env.
func run(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &errs
	cmd.Env = []string{"HOME=" + cmd.Dir}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// process is one kvwhatif that an operator's file starts.
type process struct {
	args   []string          // without the program
	env    map[string]string // with secrets filled in
	config string            // the settings file, on this machine
	secret []string          // values that must not be shown
}

// setting is a line of `kvwhatif config show`.
type setting struct{ Key, Value, Source string }

// needs are the settings that a stage can not do without, and that its defaults
// do not give.
var needs = map[string][]string{
	"migrate":   {"clickhouse.dsn"},
	"collect":   {"kafka.brokers", "listen"},
	"load":      {"kafka.brokers", "clickhouse.dsn", "listen"},
	"serve":     {"clickhouse.dsn", "calibrate.key", "listen"},
	"calibrate": {"clickhouse.dsn", "calibrate.key"},
	"verdict":   {"clickhouse.dsn", "replay.salt"},
	"replay":    {"kafka.brokers", "replay.executor", "replay.otlp", "replay.salt", "listen"},
	"simulate":  {},
}

// check runs the program on the command line and the settings, and gives the
// settings by key.
func (p process) check(t *testing.T) map[string]setting {
	t.Helper()
	require.NotEmpty(t, p.args)
	stage := p.args[0]
	require.Contains(t, needs, stage)
	t.Run("command line", p.accepted)
	env := maps.Clone(p.env)
	env["KVWHATIF_CONFIG"] = p.config
	out, errs, code := run(t, env, "config", "show", "--output", "json")
	require.Zero(t, code, errs)
	var list []setting
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	found := map[string]setting{}
	for _, s := range list {
		found[s.Key] = s
	}
	p.checkOrigins(t, found)
	for _, key := range needs[stage] {
		require.NotContains(t, []string{"", "[]"}, found[key].Value, "%s needs %s", stage, key)
		require.NotEqual(t, "default", found[key].Source, "%s: %s is left to its default", stage, key)
	}
	for _, secret := range p.secret {
		require.NotContains(t, out, secret)
	}
	return found
}

// accepted has the program read the command line. A build without the command is
// one of a work under way: it passes on a laptop, not in CI.
func (p process) accepted(t *testing.T) {
	stage := p.args[0]
	out, errs, code := run(t, nil, append(slices.Clone(p.args), "--help")...)
	if os.Getenv("CI") == "" && strings.Contains(errs, "unknown command") {
		t.Skipf("this build has no command %s", stage)
	}
	require.Zero(t, code, "kvwhatif %v is refused: %s", p.args, errs)
	require.Regexp(t, `Usage:\s+kvwhatif `+stage+`\b`, out, "kvwhatif has no command %s", stage)
}

// checkOrigins finds the file and every variable among the origins: a variable
// that is not there names no setting.
func (p process) checkOrigins(t *testing.T, found map[string]setting) {
	t.Helper()
	sources := map[string]bool{}
	for _, s := range found {
		source, _, _ := strings.Cut(s.Source, p.config+":")
		sources[source] = true
	}
	require.True(t, sources["file "], "nothing was read from %s", p.config)
	for name := range p.env {
		if strings.HasPrefix(name, "KVWHATIF_") && name != "KVWHATIF_CONFIG" {
			require.True(t, sources["environment "+name], "%s names no setting", name)
		}
	}
}

// port is the port of a host:port.
func port(t *testing.T, address string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(strings.Trim(address, "[]"))
	require.NoError(t, err, address)
	return p
}

// host is the host of a host:port, or of a list of one.
func host(t *testing.T, address string) string {
	t.Helper()
	h, _, err := net.SplitHostPort(strings.Trim(address, "[]"))
	require.NoError(t, err, address)
	return h
}

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(text)
}
