package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Backend is the broker and the database that a process works with: embedded ones
// that it runs itself, or outside ones.
type Backend struct {
	Cluster   kafka.Cluster
	Conn      *clickhouse.Conn
	DSN       string // of the writer
	ReaderDSN string // of a user who may only select; empty where it is not ours to know

	shards   []*clickhouse.Conn // to their own tables, where there are several
	broker   *kafka.Embedded
	database *clickhouse.Embedded
}

var errNoClickHouse = errors.New("no ClickHouse: give --clickhouse http://USER:PASSWORD@HOST:8123/kvwhatif, or run everything in one process with `kvwhatif up`")

// stopWithin is how long an orderly end may take.
const stopWithin = 20 * time.Second

// OpenEmbedded starts what the settings leave to the directory, and connects to
// what they name.
func OpenEmbedded(ctx context.Context, d *Dir, s *Settings, log *slog.Logger) (*Backend, error) {
	b := &Backend{Cluster: s.Kafka, DSN: s.ClickHouse.DSN}
	err := errors.Join(b.startBroker(d, log), b.startDatabase(ctx, d, log))
	if err == nil {
		err = d.Save()
	}
	if err == nil {
		err = b.prepare(ctx, s)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// OpenOutside connects to the servers that the settings name. A stage that needs
// only one of them leaves the other out.
func OpenOutside(ctx context.Context, s *Settings, needKafka, needClickHouse bool) (*Backend, error) {
	b := &Backend{DSN: s.ClickHouse.DSN}
	if err := s.named(needKafka, needClickHouse); err != nil {
		return nil, err
	}
	if needKafka {
		b.Cluster = s.Kafka
		if err := b.ensureTopics(ctx, s); err != nil {
			return nil, err
		}
	}
	if needClickHouse {
		if err := b.connect(ctx, s); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// named says which server the settings should name and do not.
func (s *Settings) named(needKafka, needClickHouse bool) error {
	if needKafka && len(s.Kafka.Brokers) == 0 {
		return errors.New("no Kafka: give --kafka HOST:PORT, or run everything in one process with `kvwhatif up`")
	}
	if needClickHouse && s.ClickHouse.DSN == "" {
		return errNoClickHouse
	}
	return nil
}

func (b *Backend) startBroker(d *Dir, log *slog.Logger) (err error) {
	if len(b.Cluster.Brokers) > 0 {
		return nil
	}
	b.broker, err = kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: d.Join("kafka"), Addr: d.State.KafkaAddr, Logger: log})
	if err != nil {
		return err
	}
	b.Cluster, d.State.KafkaAddr = b.broker.Cluster(), b.broker.Addr()
	return nil
}

func (b *Backend) startDatabase(ctx context.Context, d *Dir, log *slog.Logger) (err error) {
	if b.DSN != "" {
		return nil
	}
	b.database, err = clickhouse.StartEmbedded(ctx, clickhouse.EmbeddedConfig{
		Dir: d.Join(clickHouseDir), Port: d.State.ClickHousePort, Logger: log,
	})
	if err != nil {
		return err
	}
	b.DSN, b.ReaderDSN, d.State.ClickHousePort = b.database.DSN(), b.database.ReaderDSN(), b.database.Port()
	return nil
}

// prepare makes topics and tables.
func (b *Backend) prepare(ctx context.Context, s *Settings) error {
	if err := b.ensureTopics(ctx, s); err != nil {
		return err
	}
	return b.connect(ctx, s)
}

func (b *Backend) ensureTopics(ctx context.Context, s *Settings) error {
	spec := kafka.TopicSpec{
		Name: schema.TopicParts, Partitions: s.Topics.Partitions, Replication: s.Topics.Replication,
		Retention: time.Duration(s.Topics.Retention),
	}
	dead := spec
	dead.Name, dead.Partitions = schema.TopicDead, 1
	if err := kafka.EnsureTopics(ctx, b.Cluster, []kafka.TopicSpec{spec, dead}); err != nil {
		return fmt.Errorf("topics of Kafka at %s: %w", b.Cluster, err)
	}
	return nil
}

// Close ends what Open started, the broker last.
func (b *Backend) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var errs []error
	if b.Conn != nil {
		errs = append(errs, b.Conn.Close())
	}
	for _, c := range b.shards {
		errs = append(errs, c.Close())
	}
	if b.database != nil {
		errs = append(errs, b.database.Stop(ctx))
	}
	if b.broker != nil {
		b.broker.Stop()
	}
	return errors.Join(errs...)
}
