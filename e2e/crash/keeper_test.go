package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// patience bounds each wait for another process; nothing usual takes nearly
	// as long.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
	// restartPause is between two starts of a process that can not start yet, as
	// an init system has one.
	restartPause = 250 * time.Millisecond
)

// eventually waits until a check has nothing to say.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for ticker := time.NewTicker(tick); ; {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			require.NoError(t, err, "after %v", within)
		case <-ticker.C:
		}
	}
}

// keeper keeps a process running as an init system does, and lets it be killed.
type keeper struct {
	name  string
	env   []string
	args  func() []string // of the program, or of this binary where self is set
	self  bool
	heard func(stdout []byte) error // takes in what it prints once it is ready

	gate    sync.Mutex // held: it is not started again
	mu      sync.Mutex
	cmd     *exec.Cmd
	up      bool
	killed  bool
	ending  bool
	refused int    // starts that failed, for what it needs was away
	fell    string // how it ended by itself after it was ready; empty: it never did
	stopped chan struct{}
}

// keep starts a process and waits until it is ready.
func keep(t *testing.T, k *keeper) *keeper {
	t.Helper()
	k.stopped = make(chan struct{})
	dir := t.TempDir()
	go k.loop(dir)
	t.Cleanup(func() {
		k.stop()
		if t.Failed() {
			t.Logf("the end of what %s said:\n%s", k.name, tail(k.lastWords(dir), 1500))
		}
	})
	eventually(t, patience, k.isUp)
	return k
}

func (k *keeper) loop(dir string) {
	defer close(k.stopped)
	for cmd := k.begin(dir); cmd != nil; cmd = k.begin(dir) {
		err := cmd.Wait()
		k.mu.Lock()
		k.cmd = nil
		switch {
		case k.killed || k.ending:
		case k.up:
			k.fell = fmt.Sprintf("%s ended by itself: %v: %s", k.name, err, tail(k.lastWords(dir), 2000))
		default:
			k.refused++
		}
		wait := !k.killed && !k.ending
		k.up, k.killed = false, false
		k.mu.Unlock()
		if wait {
			time.Sleep(restartPause)
		}
	}
}

// begin starts it once, and has somebody wait until it is ready. It is nil at the
// end.
func (k *keeper) begin(dir string) *exec.Cmd {
	k.gate.Lock()
	defer k.gate.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ending {
		return nil
	}
	path := program
	if k.self {
		path, _ = os.Executable()
	}
	stdout, err := os.Create(filepath.Join(dir, "stdout"))
	errs, err2 := os.OpenFile(filepath.Join(dir, "stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err := errors.Join(err, err2); err != nil {
		k.fell = err.Error()
		return nil
	}
	defer stdout.Close()
	defer errs.Close()
	k.cmd = exec.Command(path, k.args()...)
	k.cmd.Env, k.cmd.Dir, k.cmd.Stdout, k.cmd.Stderr = environment(k.env...), dir, stdout, errs
	k.cmd.SysProcAttr = dieWithParent()
	if err := k.cmd.Start(); err != nil {
		k.fell = err.Error()
		return nil
	}
	go k.awaitReady(k.cmd, filepath.Join(dir, "stdout"))
	return k.cmd
}

func (k *keeper) awaitReady(cmd *exec.Cmd, stdout string) {
	for ticker := time.NewTicker(tick); ; <-ticker.C {
		body, err := os.ReadFile(stdout)
		k.mu.Lock()
		if k.cmd != cmd || k.killed || k.ending {
			k.mu.Unlock()
			return
		}
		if err == nil && json.Valid(body) {
			k.up = k.heard(body) == nil
		}
		up := k.up
		k.mu.Unlock()
		if up {
			return
		}
	}
}

func (k *keeper) isUp() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.up {
		return fmt.Errorf("%s is not up; %d starts failed; %s", k.name, k.refused, k.fell)
	}
	return nil
}

// kill ends it by SIGKILL; it is started again at once.
func (k *keeper) kill() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.up {
		return fmt.Errorf("%s is not up", k.name)
	}
	k.killed, k.up = true, false
	return k.cmd.Process.Kill()
}

func (k *keeper) pid() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return -1
	}
	return k.cmd.Process.Pid
}

// stop ends it in an orderly way.
func (k *keeper) stop() {
	k.mu.Lock()
	k.ending = true
	cmd := k.cmd
	k.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-k.stopped:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		<-k.stopped
	}
}

func (k *keeper) lastWords(dir string) string {
	body, _ := os.ReadFile(filepath.Join(dir, "stderr"))
	return string(body)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// environment is this one without settings of kvwhatif, with a loader that does
// soon what it otherwise does after some seconds, and extra.
func environment(extra ...string) []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "KVWHATIF_") || strings.HasPrefix(e, "KVWHATIF_CLICKHOUSE_LIB=") {
			out = append(out, e)
		}
	}
	return append(append(out, "KVWHATIF_LOAD_RECOMPUTE_EVERY=500ms", "KVWHATIF_LOAD_SWEEP_EVERY=1s", "KVWHATIF_LOAD_TRACE_JOIN_AFTER=2s",
		"KVWHATIF_LOG_LEVEL=warn"), extra...)
}

// databaseOf is the process id of the ClickHouse that a process has started, 0
// between two.
func databaseOf(parent int) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !strings.Contains(string(command), "\x00clickhouse-child\x00") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		_, after, found := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); err == nil && found && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			return pid
		}
	}
	return 0
}
