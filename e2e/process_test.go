package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// patience bounds each wait for another process; nothing usual takes nearly
	// as long.
	patience = 2 * time.Minute
	tick     = 50 * time.Millisecond
)

// endpoints is what a long-running command prints once it listens.
type endpoints struct {
	GRPC         string `json:"otlp_grpc"`
	HTTP         string `json:"otlp_http"`
	Kafka        string `json:"kafka"`
	ClickHouse   string `json:"clickhouse"`
	Coefficients string `json:"coefficients"`
	Page         string `json:"page"`
	Metrics      string `json:"metrics"`
}

// process is a running command.
type process struct {
	cmd            *exec.Cmd
	at             endpoints
	stdout, stderr string // files
	done           chan struct{}
}

// environment is this one without settings of kvwhatif, rollups that are quick,
// and extra.
func environment(extra ...string) []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "KVWHATIF_") || strings.HasPrefix(e, "KVWHATIF_CLICKHOUSE_LIB=") {
			out = append(out, e)
		}
	}
	return append(append(out, "KVWHATIF_LOAD_RECOMPUTE_EVERY=500ms", "GORACE=halt_on_error=1"), extra...)
}

// launch starts a command and does not wait for it.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{}),
		stdout: filepath.Join(dir, "stdout"), stderr: filepath.Join(dir, "stderr")}
	out, err := os.Create(p.stdout)
	require.NoError(t, err)
	defer out.Close()
	errs, err := os.Create(p.stderr)
	require.NoError(t, err)
	defer errs.Close()
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = environment(env...), dir, out, errs
	require.NoError(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		p.waitOr(func() { p.signal(syscall.SIGKILL); <-p.done })
		if t.Failed() {
			t.Logf("the end of what %v said:\n%s", args, tail(p.said(), 4000))
		}
	})
	return p
}

// start starts a long-running command and waits until it listens.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, append(args, "--output", "json")...)
	eventually(t, func() error {
		body, err := os.ReadFile(p.stdout)
		if err == nil {
			err = json.Unmarshal(body, &p.at)
		}
		if err != nil && !p.running() {
			require.Fail(t, "it ended at its start", "%v: %s", args, tail(p.said(), 2000))
		}
		return err
	})
	return p
}

// eventually waits until a check has nothing to say.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ticker := time.NewTicker(tick); ; {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			require.NoError(t, err)
		case <-ticker.C:
		}
	}
}

// startUp starts `up` on a directory, on free ports where args name none.
func startUp(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	usual := []string{"up", "--dir", dir, "--log-level", "warn"}
	for _, flag := range []string{"--grpc", "--http", "--address", "--listen", "--page"} {
		usual = append(usual, flag, "127.0.0.1:0")
	}
	return start(t, env, append(usual, args...)...) // the last of a flag holds
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) waitOr(late func()) {
	select {
	case <-p.done:
	case <-time.After(patience):
		late()
	}
}

// kill ends it by SIGKILL.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGKILL)
	p.waitOr(func() { require.Fail(t, "it outlives a SIGKILL") })
}

// stop ends it in an orderly way, and wants that to succeed.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	p.waitOr(func() { require.Fail(t, "it does not end", "%s", tail(p.said(), 2000)) })
	require.Zero(t, p.cmd.ProcessState.ExitCode(), tail(p.said(), 2000))
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// said is what it wrote to standard error.
func (p *process) said() string {
	body, _ := os.ReadFile(p.stderr)
	return string(body)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// database is the process id of its ClickHouse, 0 between two.
func (p *process) database() int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(command, []byte("\x00clickhouse-child\x00")) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		_, after, found := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); err == nil && found && fields[1] == strconv.Itoa(p.cmd.Process.Pid) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			return pid
		}
	}
	return 0
}

// killDatabase ends its ClickHouse by SIGKILL.
func (p *process) killDatabase(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if pid := p.database(); pid != 0 {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
		return errors.New("it has no ClickHouse")
	})
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// runIn runs a command to its end.
func runIn(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment(env...), t.TempDir(), &out, &errs
	err := cmd.Run()
	if exit := (&exec.ExitError{}); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// done runs a command that has to succeed, and gives what it printed.
func done(t *testing.T, args ...string) string {
	t.Helper()
	r := runIn(t, nil, args...)
	require.Zero(t, r.code, "%v: %s", args, tail(r.stderr, 2000))
	return r.stdout
}
