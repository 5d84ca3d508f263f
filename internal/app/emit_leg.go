package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// legEmitter sends each replay span by itself, so that what became of it is known
// when Emit returns.
type legEmitter struct {
	exporter *otlptrace.Exporter
	provider *sdktrace.TracerProvider
	log      *slog.Logger

	mu    sync.Mutex
	ended sdktrace.ReadOnlySpan // the last one
}

// emitPatience is how long one span is sent again; after it the runner tries again
// by itself.
const emitPatience = 30 * time.Second

func newLegEmitter(ctx context.Context, sender SenderSettings, endpoint string, log *slog.Logger) (*legEmitter, error) {
	exp, err := newExporter(ctx, sender, endpoint, emitPatience)
	if err != nil {
		return nil, err
	}
	e := &legEmitter{exporter: exp, log: log}
	e.provider = newProvider("kvwhatif-replay", sdktrace.WithSpanProcessor(e))
	return e, nil
}

// Emit returns once the collector has accepted the part.
func (e *legEmitter) Emit(ctx context.Context, p schema.Part) error {
	err := e.exporter.ExportSpans(ctx, []sdktrace.ReadOnlySpan{e.span(ctx, &p)})
	if refused(err) {
		// It is a dead letter there now, with its bytes: sending it again changes nothing.
		e.log.Error("a replay was refused by the collector", "trace", p.Trace.String(), "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("send a replay: %w", err)
	}
	return nil
}

// refused says that the collector took the request and not the span. The exporter
// has no type of error for that.
func refused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OTLP partial success")
}

// span makes the part a span of the SDK.
func (e *legEmitter) span(ctx context.Context, p *schema.Part) sdktrace.ReadOnlySpan {
	e.mu.Lock()
	defer e.mu.Unlock()
	kvspan.Write(withIDs(ctx, p.Trace, p.Span), e.provider.Tracer(tracerName), p)
	return e.ended
}

// Close ends the connection.
func (e *legEmitter) Close(ctx context.Context) error {
	return errors.Join(e.provider.Shutdown(ctx), e.exporter.Shutdown(ctx))
}

// OnStart is of sdktrace.SpanProcessor.
func (e *legEmitter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd is of sdktrace.SpanProcessor; it is called within span.
func (e *legEmitter) OnEnd(s sdktrace.ReadOnlySpan) { e.ended = s }

// Shutdown is of sdktrace.SpanProcessor.
func (e *legEmitter) Shutdown(context.Context) error { return nil }

// ForceFlush is of sdktrace.SpanProcessor.
func (e *legEmitter) ForceFlush(context.Context) error { return nil }
