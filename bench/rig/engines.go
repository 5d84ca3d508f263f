package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Broker is a real Apache Kafka.
type Broker struct {
	*kafkatest.Broker
	dir string
}

// brokerSettings let old segments go soon, and take messages as large as the peer
// makes them.
const brokerSettings = `log.segment.bytes=134217728
log.retention.check.interval.ms=5000
log.segment.delete.delay.ms=1000
message.max.bytes=67108864
replica.fetch.max.bytes=67108864`

// StartBroker starts one on a directory below dir.
func StartBroker(dir string) (*Broker, error) {
	work, err := os.MkdirTemp(dir, "kafka")
	if err != nil {
		return nil, err
	}
	b, err := kafkatest.Start(work, brokerSettings)
	if err != nil {
		return nil, fmt.Errorf("start Apache Kafka: %w", err)
	}
	return &Broker{Broker: b, dir: work}, nil
}

// End stops it and deletes what it holds.
func (b *Broker) End() {
	b.Kill() // what it holds is of no more use
	os.RemoveAll(b.dir)
}

// Topics makes topics of so many partitions, where they are missing.
func (b *Broker) Topics(ctx context.Context, partitions int, names ...string) error {
	var specs []kafka.TopicSpec
	for _, name := range names {
		specs = append(specs, kafka.TopicSpec{Name: name, Partitions: partitions, Replication: 1, Retention: time.Hour, RetentionBytes: 2 << 30})
	}
	return kafka.EnsureTopics(ctx, b.Cluster(), specs)
}

// PartsTopics makes the topics of kvwhatif.
func (b *Broker) PartsTopics(ctx context.Context, partitions int) error {
	if err := b.Topics(ctx, partitions, schema.TopicParts); err != nil {
		return err
	}
	return b.Topics(ctx, 1, schema.TopicDead)
}

// Database is a real ClickHouse server, with the tables of kvwhatif.
type Database struct {
	*clickhouse.Embedded
	Conn *clickhouse.Conn
	dir  string
}

// StartDatabase starts one on a directory below dir.
func StartDatabase(ctx context.Context, dir string) (*Database, error) {
	work, err := os.MkdirTemp(dir, "clickhouse")
	if err != nil {
		return nil, err
	}
	d := &Database{dir: work}
	if d.Embedded, err = clickhouse.StartEmbedded(ctx, clickhouse.EmbeddedConfig{Dir: work}); err != nil {
		return nil, err
	}
	if d.Conn, err = clickhouse.Open(ctx, d.DSN()); err == nil {
		_, err = migrate.Up(ctx, d.Conn)
	}
	if err != nil {
		d.End()
		return nil, err
	}
	return d, nil
}

// End stops it and deletes what it holds.
func (d *Database) End() {
	if d.Conn != nil {
		d.Conn.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	_ = d.Stop(ctx)
	os.RemoveAll(d.dir)
}

// TopicBytes is how much a topic holds on the broker's disk.
func (b *Broker) TopicBytes(topic string) (total int64) {
	logs, _ := filepath.Glob(filepath.Join(b.dir, "data", topic+"-*", "*.log"))
	for _, path := range logs {
		if info, err := os.Stat(path); err == nil {
			total += info.Size()
		}
	}
	return total
}
