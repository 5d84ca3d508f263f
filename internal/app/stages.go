package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/collector/load"
	"github.com/kvwhatif/kvwhatif/collector/otlp"
	"github.com/kvwhatif/kvwhatif/collector/publish"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
)

// collectStage is a running collector.
type collectStage struct {
	*otlp.Receiver
	writer *kafka.Writer
}

func startCollect(ctx context.Context, cfg otlp.Config, cluster kafka.Cluster, reg prometheus.Registerer, log *slog.Logger) (*collectStage, error) {
	writer, err := kafka.NewWriter(kafka.WriterConfig{Cluster: cluster, Logger: log})
	if err != nil {
		return nil, err
	}
	r := otlp.New(cfg, publish.New(writer), log)
	if err := reg.Register(r); err != nil {
		return nil, fmt.Errorf("metrics of collect: %w", err)
	}
	if err := r.Start(ctx); err != nil {
		writer.Close()
		return nil, fmt.Errorf("collect: %w", err)
	}
	warnOpen(log, "OTLP/gRPC", r.GRPCAddr(), cfg.TLS, cfg.Tokens)
	warnOpen(log, "OTLP/HTTP", r.HTTPAddr(), cfg.TLS, cfg.Tokens)
	return &collectStage{Receiver: r, writer: writer}, nil
}

// stop finishes the requests under way.
func (c *collectStage) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	err := c.Shutdown(ctx)
	if closeErr := c.writer.Close(); err == nil {
		err = closeErr
	}
	return err
}

// loadStage is a loader with its connections.
type loadStage struct {
	*load.Loader
	reader  *kafka.Reader
	writer  *kafka.Writer
	cluster kafka.Cluster
}

func newLoad(cfg load.Config, b *Backend, reg prometheus.Registerer, log *slog.Logger) (*loadStage, error) {
	group := load.Group
	if cfg.FromBeginning {
		group = load.RebuildGroup(time.Now())
	}
	reader, err := kafka.NewReader(kafka.ReaderConfig{Cluster: b.Cluster, Topic: schema.TopicParts, Group: group, Logger: log})
	if err != nil {
		return nil, err
	}
	writer, err := kafka.NewWriter(kafka.WriterConfig{Cluster: b.Cluster, Logger: log})
	if err != nil {
		return nil, err
	}
	var known prometheus.AlreadyRegisteredError // by another load of this process
	if err := reg.Register(reader); err != nil && !errors.As(err, &known) {
		return nil, fmt.Errorf("metrics of the Kafka reader: %w", err)
	}
	l, err := load.New(cfg, load.Options{
		Conn: b.Conn, Shards: b.local(), Source: reader, Dead: writer, Topic: schema.TopicParts, Logger: log, Registry: reg,
	})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return &loadStage{Loader: l, reader: reader, writer: writer, cluster: b.Cluster}, nil
}

// run loads until ctx ends.
func (l *loadStage) run(ctx context.Context) error {
	err := l.Run(ctx)
	if closeErr := l.reader.Close(); err == nil {
		err = closeErr
	}
	if closeErr := l.writer.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

// catchUp returns once everything that Kafka has accepted so far is in the tables.
func (l *loadStage) catchUp(ctx context.Context) error {
	ends, err := kafka.EndOffsets(ctx, l.cluster, schema.TopicParts)
	if err != nil {
		return err
	}
	return l.WaitFor(ctx, ends)
}
