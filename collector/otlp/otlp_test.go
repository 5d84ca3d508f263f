package otlp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// fake is a Publisher that keeps what it is given, after failing as told.
type fake struct {
	mu       sync.Mutex
	errs     []error // of the next calls, first to last
	calls    int
	parts    []schema.Part
	rejected []string
	wait     chan struct{} // if set, each call waits for it to close
}

func (p *fake) Publish(ctx context.Context, r *extract.Result) error {
	p.mu.Lock()
	p.calls++
	p.mu.Unlock()
	if p.wait != nil {
		select {
		case <-p.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errs) > 0 {
		err := p.errs[0]
		p.errs = p.errs[1:]
		return err
	}
	for _, part := range r.Parts {
		part.Decision.Policy = strings.Clone(part.Decision.Policy)
		part.RequestID = strings.Clone(part.RequestID)
		p.parts = append(p.parts, part)
	}
	for i := range r.Rejected {
		p.rejected = append(p.rejected, r.Rejected[i].Reason)
	}
	return nil
}

func (p *fake) seen() (calls, parts int, rejected []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, len(p.parts), p.rejected
}

var (
	away   = &kafka.Error{Class: kafka.Retryable, Text: "Kafka is not running at its address: connection refused"}
	denied = &kafka.Error{Class: kafka.Permanent, Text: "the Kafka user may not use this topic: grant it"}
)

func local() Config {
	cfg := Default()
	cfg.GRPC, cfg.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func start(t *testing.T, cfg Config, p Publisher) *Receiver {
	t.Helper()
	require.NoError(t, cfg.Validate())
	r := New(cfg, p, quiet())
	r.grace = patience
	require.NoError(t, r.Start(context.Background()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, r.Shutdown(ctx))
		require.Empty(t, r.Failed())
		require.Zero(t, r.budget.used.Load(), "all memory is given back")
	})
	return r
}

// part is a good contract span, unless ttft is negative.
func part(ttft float64) *schema.Part {
	now := time.Now().UnixNano()
	return &schema.Part{Kind: schema.KindContract, StartNanos: now, EndNanos: now + 1e9, Decision: schema.Decision{Policy: "p", Model: "m",
		Path: schema.PathRecompute}, Observed: schema.Observed{TTFT: schema.Some(ttft)}}
}

// exporters of the SDK, one a protocol.
func exporters(t *testing.T, r *Receiver) map[string]sdktrace.SpanExporter {
	return exportersTo(t, r.GRPCAddr(), r.HTTPAddr())
}

// patience ends what hangs; a machine that is only busy is waited for. The SDK's
// own 10 s for an export, attempts and all, are too few there.
const patience = 2 * time.Minute

func exportersTo(t *testing.T, overGRPC, overHTTP string) map[string]sdktrace.SpanExporter {
	retryGRPC := otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: time.Millisecond, MaxElapsedTime: patience}
	retryHTTP := otlptracehttp.RetryConfig(retryGRPC)
	g, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(overGRPC), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithTimeout(patience), otlptracegrpc.WithRetry(retryGRPC))
	require.NoError(t, err)
	gz, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(overGRPC), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithTimeout(patience), otlptracegrpc.WithCompressor("gzip"), otlptracegrpc.WithRetry(retryGRPC))
	require.NoError(t, err)
	h, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(overHTTP), otlptracehttp.WithInsecure(),
		otlptracehttp.WithTimeout(patience), otlptracehttp.WithRetry(retryHTTP))
	require.NoError(t, err)
	hz, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(overHTTP), otlptracehttp.WithInsecure(),
		otlptracehttp.WithTimeout(patience), otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithRetry(retryHTTP))
	require.NoError(t, err)
	return map[string]sdktrace.SpanExporter{"grpc": g, "grpc gzip": gz, "http": h, "http gzip": hz}
}

// exportParts writes parts by the SDK, in one request, and gives the export's
// error.
func exportParts(t *testing.T, e sdktrace.SpanExporter, parts ...*schema.Part) error {
	var sent recorded
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&sent))
	for _, p := range parts {
		kvspan.Write(t.Context(), provider.Tracer("test"), p)
	}
	return errors.Join(e.ExportSpans(t.Context(), sent.spans), e.Shutdown(t.Context()))
}

// recorded is a span processor that keeps the spans.
type recorded struct{ spans []sdktrace.ReadOnlySpan }

func (r *recorded) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (r *recorded) OnEnd(s sdktrace.ReadOnlySpan)                   { r.spans = append(r.spans, s) }
func (r *recorded) Shutdown(context.Context) error                  { return nil }
func (r *recorded) ForceFlush(context.Context) error                { return nil }

var protocols = []string{"grpc", "grpc gzip", "http", "http gzip"}

func TestSDKExporters(t *testing.T) {
	for _, name := range protocols {
		t.Run(name, func(t *testing.T) {
			var p fake
			r := start(t, local(), &p)
			require.NoError(t, exportParts(t, exporters(t, r)[name], part(1), part(2), part(3)))
			calls, parts, rejected := p.seen()
			require.Equal(t, 1, calls)
			require.Equal(t, 3, parts)
			require.Empty(t, rejected)
			require.Equal(t, "p", p.parts[0].Decision.Policy)
			require.Equal(t, schema.Some(3.0), p.parts[2].Observed.TTFT)
			require.Equal(t, 3.0, testutil.ToFloat64(r.spans.WithLabelValues("accepted")))
		})
	}
}

// The SDK sends again what Kafka could not take, and it is accepted once.
func TestSDKSendsAgain(t *testing.T) {
	for _, name := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for Retry-After twice
			p := fake{errs: []error{away, away}}
			r := start(t, local(), &p)
			require.NoError(t, exportParts(t, exporters(t, r)[name], part(1)))
			calls, parts, _ := p.seen()
			require.Equal(t, 3, calls)
			require.Equal(t, 1, parts)
		})
	}
}

func TestSDKGivesUpOnPermanent(t *testing.T) {
	for _, name := range protocols {
		t.Run(name, func(t *testing.T) {
			p := fake{errs: []error{denied, denied}}
			r := start(t, local(), &p)
			require.ErrorContains(t, exportParts(t, exporters(t, r)[name], part(1)), "grant it")
			calls, parts, _ := p.seen()
			require.Equal(t, 1, calls)
			require.Zero(t, parts)
		})
	}
}

// A refused span is told in partial_success, which the SDK gives as an error.
func TestSDKIsToldOfRefusedSpans(t *testing.T) {
	for _, name := range protocols {
		t.Run(name, func(t *testing.T) {
			var p fake
			r := start(t, local(), &p)
			err := exportParts(t, exporters(t, r)[name], part(1), part(-2), part(3))
			require.ErrorContains(t, err, "1 spans refused: attribute kvreuse.ttft: -2")
			_, parts, rejected := p.seen()
			require.Equal(t, 2, parts)
			require.Len(t, rejected, 1)
			require.Equal(t, 1.0, testutil.ToFloat64(r.rejected.WithLabelValues("negative")))
		})
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cfg := local()
	cfg.HTTP = l.Addr().String()
	r := New(cfg, new(fake), quiet())
	err = r.Start(context.Background())
	require.ErrorContains(t, err, "is in use by another program: stop that, or set collect.http to another address")
	require.NotContains(t, err.Error(), "\n")
	require.NoError(t, r.Shutdown(context.Background()), "after a failed Start")
}

func TestShutdownWithoutStartAndTwice(t *testing.T) {
	r := New(local(), new(fake), quiet())
	require.NoError(t, r.Shutdown(context.Background()))
	r = New(local(), new(fake), quiet())
	require.NoError(t, r.Start(context.Background()))
	require.NoError(t, r.Shutdown(context.Background()))
	require.NoError(t, r.Shutdown(context.Background()))
	require.Empty(t, r.Failed())
}

// waitForCalls returns when the publisher is in its nth call.
func waitForCalls(t *testing.T, p *fake, n int) {
	t.Helper()
	require.Eventually(t, func() bool { calls, _, _ := p.seen(); return calls == n }, patience, time.Millisecond)
}

// Shutdown waits for a request that waits for Kafka.
func TestShutdownWaitsForRequests(t *testing.T) {
	p := fake{wait: make(chan struct{})}
	r := New(local(), &p, quiet())
	require.NoError(t, r.Start(context.Background()))
	e := exporters(t, r)
	sent := make(chan error, 2)
	go func() { sent <- exportParts(t, e["grpc"], part(1)) }()
	go func() { sent <- exportParts(t, e["http"], part(2)) }()
	waitForCalls(t, &p, 2)
	down := make(chan error, 1)
	go func() { down <- r.Shutdown(context.Background()) }()
	require.Empty(t, down)
	close(p.wait)
	require.NoError(t, <-sent)
	require.NoError(t, <-sent)
	require.NoError(t, <-down)
}

func TestShutdownCutsOffAtItsDeadline(t *testing.T) {
	p := fake{wait: make(chan struct{})}
	r := New(local(), &p, quiet())
	require.NoError(t, r.Start(context.Background()))
	e, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(r.GRPCAddr()), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithTimeout(patience), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() { sent <- exportParts(t, e, part(1)) }()
	waitForCalls(t, &p, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorContains(t, r.Shutdown(ctx), "cut off")
	require.Error(t, <-sent)
	require.Zero(t, r.budget.used.Load())
}

func TestMetricsCanBeRegistered(t *testing.T) {
	r := New(local(), new(fake), quiet())
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(r))
	_, err := reg.Gather()
	require.NoError(t, err)
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, Default().Validate())
	for want, spoil := range map[string]func(*Config){
		"nothing would listen":                func(c *Config) { c.GRPC, c.HTTP = "", None },
		`collect.http: "4318" is not`:         func(c *Config) { c.HTTP = "4318" },
		"collect.max_request_bytes: 0 is not": func(c *Config) { c.MaxRequestBytes = 0 },
		"would not hold one request":          func(c *Config) { c.MaxInFlightBytes = 1 << 20 },
		"collect.max_connections: 0":          func(c *Config) { c.MaxConnections = 0 },
		"collect.read_timeout: 1ms":           func(c *Config) { c.ReadTimeout = time.Millisecond },
		"collect.wait: -1ns":                  func(c *Config) { c.Wait = -1 },
	} {
		c := Default()
		spoil(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

// panicking is a Publisher with a defect.
type panicking struct{}

func (panicking) Publish(context.Context, *extract.Result) error { panic("defect") }

func TestDefectCostsOneRequest(t *testing.T) {
	var log bytes.Buffer
	r := New(local(), panicking{}, slog.New(slog.NewTextHandler(io.Writer(&log), nil)))
	_, f := r.export(context.Background(), nil)
	require.Equal(t, kindInternal, f.kind)
	require.Contains(t, log.String(), "panic=defect")
}
