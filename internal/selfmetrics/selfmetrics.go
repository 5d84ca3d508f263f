package selfmetrics

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sort"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// checkTimeout bounds all checks of one /readyz together.
	checkTimeout = 2 * time.Second
	// closeTimeout is how long Serve lets answers end when its context does.
	closeTimeout = 2 * time.Second
	headerWait   = 5 * time.Second
)

// NewRegistry has the metrics of the Go runtime and of the process, and
// kvwhatif_build_info, which is 1 and carries version and stage as labels.
func NewRegistry(stage, version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kvwhatif_build_info", Help: "1, with what runs as labels.",
		ConstLabels: prometheus.Labels{"stage": stage, "version": version, "go": goVersion()},
	})
	info.Set(1)
	registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}

// Check says whether one thing that the stage needs is there: nil, or why not.
type Check func(context.Context) error

// Health holds the checks of a process. The zero value is alive, and ready
// once Started was called. It is safe for concurrent use.
type Health struct {
	mu      sync.Mutex
	checks  map[string]Check
	started bool
	stopped bool
}

// Add registers a check by name; the same name replaces it.
func (h *Health) Add(name string, check Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checks == nil {
		h.checks = map[string]Check{}
	}
	h.checks[name] = check
}

// Started says that the stage has started; before that it is not ready.
func (h *Health) Started() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
}

// Stopping says that the stage ends: it is alive, but no longer ready, so that
// a load balancer sends nothing more.
func (h *Health) Stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

// Ready runs all checks at once and returns what is not right, by name. An
// empty map is ready.
func (h *Health) Ready(ctx context.Context) map[string]string {
	h.mu.Lock()
	checks := make(map[string]Check, len(h.checks))
	for name, check := range h.checks {
		checks[name] = check
	}
	started, stopped := h.started, h.stopped
	h.mu.Unlock()
	wrong := map[string]string{}
	if !started {
		wrong["start"] = "not finished"
	}
	if stopped {
		wrong["stop"] = "under way"
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for name, err := range runAll(ctx, checks) {
		if err != nil {
			wrong[name] = err.Error()
		}
	}
	return wrong
}

// runAll does not wait for a check that ignores its context.
func runAll(ctx context.Context, checks map[string]Check) map[string]error {
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer, len(checks))
	results := make(map[string]error, len(checks))
	for name, check := range checks {
		results[name] = errors.New("the check does not answer")
		go func() { answers <- answer{name, check(ctx)} }()
	}
	for range checks {
		select {
		case a := <-answers:
			results[a.name] = a.err
		case <-ctx.Done():
			return results
		}
	}
	return results
}

// Handler serves /metrics, /healthz and /readyz. The last two answer 200 or
// 503 with a JSON object: status, and the failed checks by name.
func Handler(registry *prometheus.Registry, health *Health) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry, EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, health.Ready(r.Context())) })
	return mux
}

func answer(w http.ResponseWriter, wrong map[string]string) {
	body := struct {
		Status string            `json:"status"`
		Wrong  map[string]string `json:"wrong,omitempty"`
	}{Status: "ok", Wrong: wrong}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(wrong) > 0 {
		body.Status = "not ready"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body)
}

// Names lists the checks, sorted.
func (h *Health) Names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.checks))
	for name := range h.checks {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Server answers on an address until its context ends.
type Server struct {
	addr string
	done chan error
}

// Serve listens on addr (port 0: a free one) and answers until ctx ends.
func Serve(ctx context.Context, addr string, handler http.Handler) (*Server, error) {
	return ServeTLS(ctx, addr, handler, nil)
}

// ServeTLS is Serve over TLS; without where encrypted is nil.
func ServeTLS(ctx context.Context, addr string, handler http.Handler, encrypted *tls.Config) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics on %s: %w", addr, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerWait, TLSConfig: encrypted.Clone()}
	serve := server.Serve
	if encrypted != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	s := &Server{addr: listener.Addr().String(), done: make(chan error, 1)}
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(end) != nil {
			server.Close()
		}
	})
	go func() {
		err := serve(listener)
		stop()
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		s.done <- err
		close(s.done)
	}()
	return s, nil
}

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// Wait returns when the server has ended: nil after its context ended.
func (s *Server) Wait() error { return <-s.done }
