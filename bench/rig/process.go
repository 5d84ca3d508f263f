package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	startWithin = 90 * time.Second
	stopWithin  = 30 * time.Second
	tick        = 20 * time.Millisecond
)

// Process is a running program that is measured.
type Process struct {
	cmd            *exec.Cmd
	stdout, stderr string // files
	done           chan struct{}
}

// Launch starts a program in dir, with extra environment. Settings of kvwhatif
// in the environment do not reach it.
func Launch(dir, program string, env []string, args ...string) (*Process, error) {
	work, err := os.MkdirTemp(dir, filepath.Base(program))
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(program, args...), done: make(chan struct{}),
		stdout: filepath.Join(work, "stdout"), stderr: filepath.Join(work, "stderr")}
	out, err := os.Create(p.stdout)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(p.stderr)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = append(environment(), env...), work, out, errs
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return p, nil
}

func environment() (out []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "KVWHATIF_") || strings.HasPrefix(e, "KVWHATIF_CLICKHOUSE_LIB=") {
			out = append(out, e)
		}
	}
	return out
}

// Endpoints is what a stage of kvwhatif prints once it listens.
type Endpoints struct {
	GRPC       string `json:"otlp_grpc"`
	Kafka      string `json:"kafka"`
	ClickHouse string `json:"clickhouse"`
	Metrics    string `json:"metrics"`
}

// LaunchStage starts a stage of kvwhatif, and waits until it listens.
func LaunchStage(ctx context.Context, dir, program string, env []string, args ...string) (*Process, Endpoints, error) {
	var at Endpoints
	p, err := Launch(dir, program, env, append(args, "--output", "json", "--log-level", "warn")...)
	if err != nil {
		return nil, at, err
	}
	err = Until(ctx, startWithin, "kvwhatif "+args[0]+" to listen", func() (bool, error) {
		if !p.Running() {
			return false, fmt.Errorf("it ended at its start: %s", p.Said())
		}
		body, err := os.ReadFile(p.stdout)
		return err == nil && json.Unmarshal(body, &at) == nil, nil
	})
	if err != nil {
		p.Stop()
		return nil, at, fmt.Errorf("start kvwhatif %s: %w", args[0], err)
	}
	return p, at, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Running is false once it has ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Said is the end of what it wrote to standard error.
func (p *Process) Said() string {
	body, _ := os.ReadFile(p.stderr)
	return strings.TrimSpace(string(body[max(0, len(body)-2000):]))
}

// profiled is how a stage says where its profiles are.
var profiled = regexp.MustCompile(`url=http://(\S+)/debug/pprof/`)

// Pprof is the address of its profiles, where it gives them out.
func (p *Process) Pprof() (string, error) {
	found := profiled.FindStringSubmatch(p.Said())
	if found == nil {
		return "", errors.New("it does not say where its profiles are")
	}
	return found[1], nil
}

// Stop ends it, by force if it does not end when asked.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Until looks again and again whether something is so.
func Until(ctx context.Context, within time.Duration, what string, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for ticker := time.NewTicker(tick); ; {
		ok, err := so()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Listens waits until somebody takes connections at an address.
func Listens(ctx context.Context, p *Process, addr string) error {
	return Until(ctx, startWithin, addr, func() (bool, error) {
		if !p.Running() {
			return false, errors.New("it ended at its start: " + p.Said())
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil, nil
	})
}

// FreePort asks the kernel for a port of this machine.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
