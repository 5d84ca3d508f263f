// Package otlp receives traces over OTLP/gRPC and OTLP/HTTP.
//
// A request is accepted only once its parts and its refused spans are in Kafka.
// What is refused is told in partial_success, with reasons. A request that can
// not be taken now is answered so that the sender tries again: memory is
// bounded, and past the bound senders wait.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/collector/extract"
)

// Publisher makes a request safe: it returns nil once all of it is acknowledged.
// *publish.Publisher is one. It may add to r.Rejected.
type Publisher interface {
	Publish(ctx context.Context, r *extract.Result) error
}

// Receiver listens for OTLP. It is a prometheus.Collector of its own metrics:
// register it.
type Receiver struct {
	cfg       Config
	publisher Publisher
	logger    *slog.Logger
	budget    *budget
	grace     time.Duration // the constant; tests have more patience with a busy machine
	*metrics

	grpc      *http.Server
	http      *http.Server
	listeners map[protocol]net.Listener
	serving   sync.WaitGroup
	failed    chan error
	results   sync.Pool            // *extract.Result
	large     chan *extract.Result // a few of those of many spans
	quiet     atomic.Int64         // Unix nanoseconds until which refused spans are not logged again
}

type protocol string

const (
	overGRPC protocol = "grpc"
	overHTTP protocol = "http"
)

// New makes a Receiver; cfg must be valid. It does not listen yet.
func New(cfg Config, publisher Publisher, logger *slog.Logger) *Receiver {
	r := &Receiver{cfg: cfg, publisher: publisher, logger: logger, listeners: make(map[protocol]net.Listener), failed: make(chan error, 2), grace: grace}
	r.budget = newBudget(cfg.MaxInFlightBytes, cfg.Wait)
	r.metrics = newMetrics(r.budget)
	r.results.New = func() any { return new(extract.Result) }
	r.large = make(chan *extract.Result, largeKept)
	r.grpc = r.grpcServer()
	r.http = r.httpServer()
	return r
}

// Start opens the ports and serves until Shutdown. Its error is one line that
// says what to do.
func (r *Receiver) Start(ctx context.Context) error {
	for p, address := range map[protocol]string{overGRPC: r.cfg.GRPC, overHTTP: r.cfg.HTTP} {
		if !listens(address) {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			r.closeListeners()
			return listenError(p, address, err)
		}
		r.listeners[p] = limitConnections(l, r.cfg.MaxConnections, r.connectionsRefused.WithLabelValues(string(p)),
			func() { r.budget.drop(-1, 1) })
	}
	r.serve(overGRPC, r.grpc)
	r.serve(overHTTP, r.http)
	return nil
}

func (r *Receiver) closeListeners() {
	for _, l := range r.listeners {
		l.Close()
	}
}

func (r *Receiver) serve(p protocol, server *http.Server) {
	l, ok := r.listeners[p]
	if !ok {
		return
	}
	serve := server.Serve
	if r.cfg.TLS != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	r.logger.Info("listening for OTLP", "protocol", string(p), "address", l.Addr().String(), "tls", r.cfg.TLS != nil)
	r.serving.Go(func() {
		if err := serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			r.failed <- fmt.Errorf("serve OTLP over %s on %s: %w", p, l.Addr(), err)
		}
	})
}

func listenError(p protocol, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("OTLP over %s: %s is in use by another program: stop that, or set collect.%s to another address", p, address, p)
	}
	return fmt.Errorf("listen for OTLP over %s on %s: %w", p, address, err)
}

// Failed gives an error if a listener ends by itself; a Receiver that listens no
// more should be shut down.
func (r *Receiver) Failed() <-chan error { return r.failed }

// GRPCAddr is the address listened on, once started; "" where it is not.
func (r *Receiver) GRPCAddr() string { return r.address(overGRPC) }

// HTTPAddr is the address listened on, once started; "" where it is not.
func (r *Receiver) HTTPAddr() string { return r.address(overHTTP) }

func (r *Receiver) address(p protocol) string {
	if l, ok := r.listeners[p]; ok {
		return l.Addr().String()
	}
	return ""
}

// Shutdown takes no new requests, waits for those under way until ctx ends, and
// then cuts them off, which is its error. It can be called more than once, and
// without Start.
func (r *Receiver) Shutdown(ctx context.Context) error {
	var stopping errgroup.Group
	for _, server := range []*http.Server{r.grpc, r.http} {
		stopping.Go(func() error { return server.Shutdown(ctx) })
	}
	err := stopping.Wait()
	r.closeListeners() // those whose server had not begun to serve
	if err != nil {
		r.grpc.Close()
		r.http.Close()
		err = fmt.Errorf("shut down the OTLP receiver: requests under way were cut off: %w", err)
	}
	r.serving.Wait()
	return err
}
