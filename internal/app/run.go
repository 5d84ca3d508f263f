package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/collector/otlp"
	"github.com/kvwhatif/kvwhatif/internal/selfmetrics"
)

// Version is set by the linker.
var Version = "dev"

// Endpoints is where a process can be reached; empty where it does not listen.
type Endpoints struct {
	Dir          string `json:"dir,omitempty"`
	GRPC         string `json:"otlp_grpc,omitempty"`
	HTTP         string `json:"otlp_http,omitempty"`
	Kafka        string `json:"kafka,omitempty"`
	ClickHouse   string `json:"clickhouse,omitempty"` // DSN of the user who may only select
	Coefficients string `json:"coefficients,omitempty"`
	Page         string `json:"page,omitempty"`          // URL
	Executor     string `json:"executor,omitempty"`      // of the replayer
	Plan         string `json:"sampling_plan,omitempty"` // likewise
	Metrics      string `json:"metrics,omitempty"`
}

// Announce is called once, when everything listens.
type Announce func(Endpoints)

// process is what every long-running command has: metrics, health and a group of
// goroutines of which the first failure ends all.
type process struct {
	registry *prometheus.Registry
	health   *selfmetrics.Health
	group    *errgroup.Group
	ctx      context.Context
	log      *slog.Logger
}

func newProcess(ctx context.Context, stage string, log *slog.Logger) *process {
	group, ctx := errgroup.WithContext(ctx)
	return &process{
		registry: selfmetrics.NewRegistry(stage, Version), health: &selfmetrics.Health{},
		group: group, ctx: ctx, log: log,
	}
}

// mount is a handler that stands beside /metrics.
type mount struct {
	path    string
	handler http.Handler
}

// listen serves metrics, health and what else is mounted where the settings say
// so.
func (p *process) listen(addr string, mounts ...mount) (string, error) {
	if addr == "" || addr == otlp.None {
		return "", nil
	}
	mux := http.NewServeMux()
	mux.Handle("/", selfmetrics.Handler(p.registry, p.health))
	for _, m := range mounts {
		mux.Handle(m.path, m.handler)
	}
	server, err := selfmetrics.Serve(p.ctx, addr, mux)
	if err != nil {
		return "", fmt.Errorf("%w: choose another address with --listen", err)
	}
	p.group.Go(server.Wait)
	return server.Addr(), nil
}

// serve answers on addr until the process ends.
func (p *process) serve(addr string, h http.Handler) (string, error) {
	return p.serveTLS(addr, h, nil)
}

func (p *process) serveTLS(addr string, h http.Handler, encrypted *tls.Config) (string, error) {
	server, err := selfmetrics.ServeTLS(p.ctx, addr, h, encrypted)
	if err != nil {
		return "", err
	}
	p.group.Go(server.Wait)
	return server.Addr(), nil
}

// wait returns when the process has ended: nil after its context did.
func (p *process) wait() error {
	p.health.Started()
	p.group.Go(func() error {
		<-p.ctx.Done()
		p.health.Stopping()
		return nil
	})
	if err := p.group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// watch ends the process if the receiver stops listening by itself, and stops the
// receiver when the process ends.
func (p *process) watch(c *collectStage) {
	p.group.Go(func() error {
		select {
		case <-p.ctx.Done():
			return c.stop()
		case err := <-c.Failed():
			return errors.Join(fmt.Errorf("collect: %w", err), c.stop())
		}
	})
}

// Collect runs the collector alone, until ctx ends.
func Collect(ctx context.Context, s *Settings, log *slog.Logger, announce Announce) error {
	b, err := OpenOutside(ctx, s, true, false)
	if err != nil {
		return err
	}
	p := newProcess(ctx, "collect", log)
	if err := s.openDoor(log); err != nil {
		return err
	}
	c, err := startCollect(p.ctx, s.Collect, b.Cluster, p.registry, log)
	if err != nil {
		return err
	}
	p.watch(c)
	metrics, err := p.listen(s.Listen)
	if err == nil {
		err = p.profile(s.Pprof)
	}
	if err != nil {
		return errors.Join(err, c.stop())
	}
	announce(Endpoints{GRPC: c.GRPCAddr(), HTTP: c.HTTPAddr(), Kafka: b.Cluster.String(), Metrics: metrics})
	return p.wait()
}

// Load runs the loader alone, until ctx ends. It waits for servers that are away:
// until they answer it is alive, and not ready.
func Load(ctx context.Context, s *Settings, log *slog.Logger, announce Announce) error {
	if err := s.named(true, true); err != nil {
		return err
	}
	p := newProcess(ctx, "load", log)
	metrics, err := p.listen(s.Listen)
	if err == nil {
		err = p.profile(s.Pprof)
	}
	if err != nil {
		return p.fail(err)
	}
	b, err := awaitOutside(p.ctx, s, true, true, log)
	if err != nil && ctx.Err() != nil {
		return p.wait()
	}
	if err != nil {
		return p.fail(err)
	}
	defer b.Close()
	l, err := newLoad(s.Load, b, p.registry, log)
	if err != nil {
		return p.fail(err)
	}
	p.health.Add("clickhouse", b.Conn.Ping)
	p.group.Go(func() error { return l.run(p.ctx) })
	announce(Endpoints{Kafka: b.Cluster.String(), Metrics: metrics})
	return p.wait()
}
