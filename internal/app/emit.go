package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Emitter sends spans through the OpenTelemetry SDK and OTLP/gRPC, as a real
// coordinator would, and loses none: its queue blocks when it is full, and a
// batch that was not accepted makes the next Flush fail.
type Emitter struct {
	provider *sdktrace.TracerProvider
	exporter *strictExporter
}

// retryFor is how long an unanswered batch is sent again: past a ten-minute
// outage of the collector's broker.
const retryFor = 15 * time.Minute

// newExporter sends to the OTLP/gRPC address endpoint, and sends again for patience.
func newExporter(ctx context.Context, sender SenderSettings, endpoint string, patience time.Duration) (*otlptrace.Exporter, error) {
	how, err := sender.otlp(endpoint)
	if err != nil {
		return nil, err
	}
	exp, err := otlptracegrpc.New(ctx, append(how,
		otlptracegrpc.WithCompressor("gzip"),
		otlptracegrpc.WithTimeout(patience),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: 100 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: patience,
		}))...)
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter to %s: %w", endpoint, err)
	}
	return exp, nil
}

// newProvider makes spans of service, with ids that are given and every attribute.
func newProvider(service string, to sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
	limits := sdktrace.NewSpanLimits()
	limits.AttributeCountLimit = -1
	// What the SDK would print is in the error of who sends.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	return sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
		sdktrace.WithIDGenerator(contextIDs{}),
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithRawSpanLimits(limits), to)
}

// NewEmitter sends to the OTLP/gRPC address endpoint as service service.
func NewEmitter(ctx context.Context, sender SenderSettings, endpoint, service string) (*Emitter, error) {
	exp, err := newExporter(ctx, sender, endpoint, retryFor)
	if err != nil {
		return nil, err
	}
	strict := &strictExporter{SpanExporter: exp}
	provider := newProvider(service, sdktrace.WithBatcher(strict, sdktrace.WithBlocking(),
		sdktrace.WithMaxExportBatchSize(512), sdktrace.WithMaxQueueSize(4096),
		sdktrace.WithBatchTimeout(time.Second), sdktrace.WithExportTimeout(retryFor)))
	return &Emitter{provider: provider, exporter: strict}, nil
}

// tracerName is the instrumentation scope of our spans.
const tracerName = "github.com/kvwhatif/kvwhatif"

// Tracer is what instrumentation writes its spans with.
func (e *Emitter) Tracer() trace.Tracer {
	return e.provider.Tracer(tracerName)
}

// Flush returns once every span that ended before it was accepted, or with the
// reason why one was not.
func (e *Emitter) Flush(ctx context.Context) error {
	err := e.provider.ForceFlush(ctx)
	if lost := e.exporter.take(); lost != nil {
		err = lost
	}
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	return nil
}

// Close flushes and stops.
func (e *Emitter) Close(ctx context.Context) error {
	return errors.Join(e.Flush(ctx), e.provider.Shutdown(ctx))
}

// strictExporter remembers the first batch that was lost; the SDK itself only
// reports it to a global handler.
type strictExporter struct {
	sdktrace.SpanExporter
	mu    sync.Mutex
	first error
}

// ExportSpans sends one batch.
func (s *strictExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		s.mu.Lock()
		if s.first == nil {
			s.first = fmt.Errorf("%d spans were not accepted: %w", len(spans), err)
		}
		s.mu.Unlock()
	}
	return err
}

// take gives the failure once, so that it is told once.
func (s *strictExporter) take() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.first
	s.first = nil
	return err
}
