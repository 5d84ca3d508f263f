package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// How an embedded server is watched.
const (
	startTimeout  = 60 * time.Second       // from start to answering; the usual is under a second
	pollInterval  = 25 * time.Millisecond  // between two looks whether it answers
	firstBackoff  = 100 * time.Millisecond // before the first restart
	longestWait   = 5 * time.Second        // before any restart
	stopGrace     = 10 * time.Second       // from SIGTERM to SIGKILL
	portAttempts  = 5                      // ports tried where the choice is ours
	portGrace     = 5 * time.Second        // for a predecessor to leave the port
	healthyAfter  = 30 * time.Second       // a server this old resets the backoff
	probeDeadline = 5 * time.Second        // of one look
)

// EmbeddedConfig says where and from what an embedded server runs.
type EmbeddedConfig struct {
	Dir    string       // data, configuration and logs; made if missing; one server at a time
	Port   int          // HTTP port on 127.0.0.1; 0 chooses a free one
	Native int          // port of the native protocol on 127.0.0.1; 0: none. A TCP reset on an idle connection there ends the server
	Config string       // further elements of its configuration, such as <remote_servers>
	Engine Engine       // zero: FindEngine
	Logger *slog.Logger // nil: slog.Default
}

// Embedded is a running, supervised ClickHouse server. If the server process
// dies it is started again at the same address; callers see Retryable errors
// until it answers.
type Embedded struct {
	cfg      EmbeddedConfig
	pass     passwords
	restarts atomic.Int64
	pid      atomic.Int64
	stop     chan struct{}
	stopping atomic.Bool
	done     chan struct{}
}

// StartEmbedded starts a server and returns when it answers and has its
// database. ctx bounds the start only; Stop ends the server, and so does the
// end of this process, however it comes.
func StartEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Embedded, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("start embedded ClickHouse: %w", err)
	}
	for attempt := 1; ; attempt++ {
		e, err := start(ctx, cfg)
		if err == nil {
			return e, nil
		}
		// A port that was free a moment ago may be taken by now.
		if cfg.Port != 0 || attempt == portAttempts || !strings.Contains(err.Error(), "Address already in use") {
			return nil, fmt.Errorf("start embedded ClickHouse from %s: %w", cfg.Engine, err)
		}
	}
}

// start makes one attempt, on the port given or a free one.
func start(ctx context.Context, cfg EmbeddedConfig) (*Embedded, error) {
	var err error
	if cfg.Port, err = claimPort(ctx, cfg.Port); err != nil {
		return nil, err
	}
	e := &Embedded{cfg: cfg, stop: make(chan struct{}), done: make(chan struct{})}
	if e.pass, err = writeFiles(cfg); err != nil {
		return nil, err
	}
	c, err := e.launch(ctx)
	if err != nil {
		return nil, err
	}
	go e.supervise(c)
	return e, nil
}

// complete fills in what was left open and checks the rest.
func (cfg EmbeddedConfig) complete() (EmbeddedConfig, error) {
	var err error
	if cfg.Dir == "" {
		return cfg, errors.New("no directory given")
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return cfg, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Engine == (Engine{}) {
		if cfg.Engine, err = FindEngine(); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// DSN is the writer's address.
func (e *Embedded) DSN() string { return e.dsn(Writer, e.pass.writer) }

// ReaderDSN is the address of the user who may only select.
func (e *Embedded) ReaderDSN() string { return e.dsn(Reader, e.pass.reader) }

func (e *Embedded) dsn(user, password string) string { return dsn(e.Addr(), user, password) }

// NativeDSN is the writer's address for the native protocol, empty where the
// server does not speak it.
func (e *Embedded) NativeDSN() string {
	if e.cfg.Native == 0 {
		return ""
	}
	u := url.URL{Scheme: "clickhouse", User: url.UserPassword(Writer, e.pass.writer),
		Host: fmt.Sprintf("127.0.0.1:%d", e.cfg.Native), Path: "/" + Database}
	return u.String()
}

// Addr is host:port of the HTTP interface.
func (e *Embedded) Addr() string { return fmt.Sprintf("127.0.0.1:%d", e.cfg.Port) }

// Port is the HTTP port, for a later start at the same address.
func (e *Embedded) Port() int { return e.cfg.Port }

// Restarts counts how often the server died and was started again.
func (e *Embedded) Restarts() int { return int(e.restarts.Load()) }

// PID is the process id of the server now running, 0 between two.
func (e *Embedded) PID() int { return int(e.pid.Load()) }

// LogPath is the server's own log.
func (e *Embedded) LogPath() string { return filepath.Join(e.cfg.Dir, logFile) }

// Done is closed when the server has ended after Stop.
func (e *Embedded) Done() <-chan struct{} { return e.done }

// Stop ends the server in an orderly way and waits for that. It may be called
// twice. If ctx ends first the server is on its way out, and ctx's error is
// returned.
func (e *Embedded) Stop(ctx context.Context) error {
	if e.stopping.CompareAndSwap(false, true) {
		close(e.stop)
	}
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop embedded ClickHouse: %w", ctx.Err())
	}
}

// supervise keeps a server running until Stop.
func (e *Embedded) supervise(c *child) {
	defer close(e.done)
	backoff := firstBackoff
	for {
		select {
		case <-e.stop:
			e.pid.Store(0)
			c.end()
			return
		case <-c.exited:
		}
		e.pid.Store(0)
		if time.Since(c.started) > healthyAfter {
			backoff = firstBackoff
		}
		if c, backoff = e.restart(c, backoff); c == nil {
			return
		}
	}
}

// restart waits and starts the next server, as often as it takes. It returns
// nil when Stop was called meanwhile.
func (e *Embedded) restart(dead *child, backoff time.Duration) (*child, time.Duration) {
	reason := dead.reason()
	for {
		e.cfg.Logger.Warn("embedded ClickHouse ended; starting it again",
			"reason", reason, "wait", backoff, "restarts", e.restarts.Load(), "log", e.LogPath())
		select {
		case <-e.stop:
			return nil, 0
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, longestWait)
		ctx, cancel := e.untilStopped()
		next, err := e.launch(ctx)
		cancel()
		e.restarts.Add(1)
		if err == nil {
			return next, backoff
		}
		reason = err.Error()
	}
}

// untilStopped is a context that Stop ends.
func (e *Embedded) untilStopped() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-e.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// launch starts one server process and waits until it answers. On an error no
// process is left.
func (e *Embedded) launch(ctx context.Context) (*child, error) {
	// Again before each start: another start in this directory, refused by its
	// lock, may have left its own port there.
	if _, err := writeFiles(e.cfg); err != nil {
		return nil, err
	}
	c, err := startChild(e.cfg)
	if err != nil {
		return nil, err
	}
	if err := e.waitReady(ctx, c); err != nil {
		c.end()
		return nil, err
	}
	e.pid.Store(int64(c.cmd.Process.Pid))
	return c, nil
}

// waitReady polls until the server has made its database.
func (e *Embedded) waitReady(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := e.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("the server ended: %s; its log is %s", c.reason(), e.LogPath())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer (%w): %v; its log is %s", ctx.Err(), err, e.LogPath())
		case <-ticker.C:
		}
	}
}
