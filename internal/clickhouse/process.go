package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// outputFile takes what the server process prints, of the last start only.
const outputFile = "output.log"

// child is one server process.
type child struct {
	cmd      *exec.Cmd
	lifeline *os.File // held open: its end tells the child that we are gone
	output   string
	started  time.Time
	exited   chan struct{}
}

// startChild starts this binary again as the server process.
func startChild(cfg EmbeddedConfig) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	output := filepath.Join(cfg.Dir, outputFile)
	out, err := os.OpenFile(output, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's output: %w", err)
	}
	defer out.Close()
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe to the server: %w", err)
	}
	defer theirs.Close()
	cmd := exec.Command(self, ChildCommand, "--dir="+cfg.Dir, fmt.Sprintf("--port=%d", cfg.Port), fmt.Sprintf("--native=%d", cfg.Native),
		"--library="+cfg.Engine.Library, "--binary="+cfg.Engine.Binary)
	cmd.Dir, cmd.Stdout, cmd.Stderr = cfg.Dir, out, out
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the server process: %w", err)
	}
	c := &child{cmd: cmd, lifeline: ours, output: output, started: time.Now(), exited: make(chan struct{})}
	go c.wait()
	return c, nil
}

func (c *child) wait() {
	_ = c.cmd.Wait()
	c.lifeline.Close()
	close(c.exited)
}

// end terminates the process, by force if it takes too long, and waits.
func (c *child) end() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.exited:
	case <-time.After(stopGrace):
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
}

// reason is how the process ended and what it said, on one line. Only for one
// that exited.
func (c *child) reason() string {
	state := c.cmd.ProcessState.String()
	body, err := os.ReadFile(c.output)
	if said := errorLine(string(body)); err == nil && said != "" {
		return state + ": " + said
	}
	return state
}

// errorLine is the line of an output that names the error, or else its last
// line; where the server logs to is no news.
func errorLine(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "Exception") || strings.HasPrefix(line, "Code:") {
			return shorten(line)
		}
		if line != "" && !strings.HasPrefix(line, "Logging ") {
			last = line
		}
	}
	return shorten(last)
}

// probe asks the server to make its database.
func (e *Embedded) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	u := url.URL{Scheme: "http", Host: e.Addr(), Path: "/"}
	body := strings.NewReader("CREATE DATABASE IF NOT EXISTS " + Database)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err != nil {
		return err
	}
	req.SetBasicAuth(Writer, e.pass.writer)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return errors.New(shorten(string(text)))
}

// claimPort finds a free port, or waits for a given one to become free: a
// server whose parent was killed needs a moment to go.
func claimPort(ctx context.Context, port int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, portGrace)
	defer cancel()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("port %d is taken by another program: choose another or end that program (%w)", port, err)
		case <-time.After(pollInterval):
		}
	}
}
