package llama

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startDeadline = 2 * time.Minute
	stopGrace     = 3 * time.Second
	pollEvery     = 50 * time.Millisecond
)

// ServerConfig is how to start a server.
type ServerConfig struct {
	Binary  string // as Find gives it
	Model   string // as EnsureModel gives it
	Dir     string // its own: output, and the slots that it saves
	Slots   int    // requests at once; 0: 2
	Context int    // tokens of each slot; 0: 8192
	Threads int    // 0: 1
	Nice    int    // 0 to 19
}

// Server is a llama-server that is a child of this process, and ends with it.
type Server struct {
	*Client
	URL     string // http://127.0.0.1:PORT
	SaveDir string // its --slot-save-path
	Count   int    // slots

	cmd    *exec.Cmd
	output string
	exited chan struct{}
}

// StartServer starts a server at a port that the kernel chooses, and waits until
// its model is loaded.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	cfg.setDefaults()
	save := filepath.Join(cfg.Dir, "slots")
	if err := os.MkdirAll(save, 0o700); err != nil {
		return nil, fmt.Errorf("start llama-server: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start llama-server: find a port: %w", err)
	}
	s := &Server{
		URL: fmt.Sprintf("http://127.0.0.1:%d", port), SaveDir: save, Count: cfg.Slots,
		output: filepath.Join(cfg.Dir, "output.log"), exited: make(chan struct{}),
	}
	if s.Client, err = NewClient(s.URL); err != nil {
		return nil, err
	}
	if err := s.spawn(&cfg, port); err != nil {
		return nil, fmt.Errorf("start llama-server: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (c *ServerConfig) setDefaults() {
	if c.Slots <= 0 {
		c.Slots = 2
	}
	if c.Context <= 0 {
		c.Context = 8192
	}
	if c.Threads <= 0 {
		c.Threads = 1
	}
}

func (c *ServerConfig) args(port int, save string) []string {
	n := strconv.Itoa
	return []string{
		"-m", c.Model, "--host", "127.0.0.1", "--port", n(port), "--slots", "--slot-save-path", save, "--metrics",
		"-np", n(c.Slots), "-c", n(c.Slots * c.Context), "--no-kv-unified", "-b", "512", "-ub", "512",
		"-t", n(c.Threads), "-tb", n(c.Threads),
		"--cache-ram", "0", // a second prompt cache of 8 GiB, which would hide what a slot holds
		"--no-ui", "--offline",
	}
}

func (s *Server) spawn(cfg *ServerConfig, port int) error {
	out, err := os.Create(s.output)
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd = exec.Command(cfg.Binary, cfg.args(port, s.SaveDir)...)
	if cfg.Nice > 0 {
		s.cmd = exec.Command("nice", append([]string{"-n", strconv.Itoa(cfg.Nice), cfg.Binary}, cfg.args(port, s.SaveDir)...)...)
	}
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = out, out, dieWithParent()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	return nil
}

// ready waits until the model is loaded.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	for {
		err := s.Health(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("llama-server ended at its start (%s): %s", s.cmd.ProcessState, s.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("llama-server is not ready: %w", err)
		case <-time.After(pollEvery):
		}
	}
}

// lastWords is the end of what the server printed.
func (s *Server) lastWords() string {
	f, err := os.Open(s.output)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(0, info.Size()-500), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	return strings.TrimSpace(string(text))
}

// Pid is the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Close ends the process, by force if it takes too long. It may be called more
// than once.
func (s *Server) Close() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(stopGrace):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
