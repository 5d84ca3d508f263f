package peer

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// SpansTopic is where ToKafka writes and FromKafka reads; SpansTable is where
// FromKafka puts them, in SpansDatabase.
const (
	SpansTopic    = "otlp_spans"
	SpansTable    = "otel_traces"
	SpansDatabase = "peer"
)

// MaxMessageBytes is what the broker must take: a batch of the batch processor's
// default size is one message.
const MaxMessageBytes = 64 << 20

// queue makes both exporters wait where they are behind; by default they drop.
// A short one, for 1,000 batches would be the memory that is measured.
const queue = `
    timeout: 30s
    sending_queue:
      enabled: true
      num_consumers: 4
      queue_size: 8
      block_on_overflow: true`

const service = `
service:
  telemetry:
    metrics:
      level: none
    logs:
      level: error
  pipelines:
    traces:
      receivers: [%s]
      processors: [%s]
      exporters: [%s]
`

const limiter = `
  memory_limiter:
    check_interval: 1s
    limit_mib: 4096`

// ToKafka is the configuration of a peer that takes OTLP at an address and
// brings it to Kafka: acknowledged by all in-sync replicas, not compressed, the
// batch processor as it comes.
func ToKafka(listen, broker string) string {
	return fmt.Sprintf(`receivers:
  otlp:
    protocols:
      grpc:
        endpoint: %s
        max_recv_msg_size_mib: 64
processors:`+limiter+`
  batch:
exporters:
  kafka:
    brokers: [%q]
    traces:
      topic: %s
      encoding: otlp_proto
    producer:
      required_acks: -1
      max_message_bytes: %d
      compression: none
      allow_auto_topic_creation: false`+queue+service, listen, broker, SpansTopic, MaxMessageBytes, "otlp", "memory_limiter, batch", "kafka")
}

// FromKafka is the configuration of a peer that brings the spans of SpansTopic
// into the ClickHouse that the DSN names, batch spans at a time. It has no memory
// limiter: what that refuses, the receiver passes over.
func FromKafka(broker, dsn, group string, batch int) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("read the DSN: %w", err)
	}
	password, _ := u.User.Password()
	return fmt.Sprintf(`receivers:
  kafka:
    brokers: [%q]
    group_id: %s
    initial_offset: earliest
    max_fetch_size: 8388608
    max_partition_fetch_size: 8388608
    traces:
      topics: [%s]
      encoding: otlp_proto
processors:
  batch:
    send_batch_size: %d
    timeout: 1s
exporters:
  clickhouse:
    endpoint: http://%s
    username: %q
    password: %q
    database: %s
    async_insert: false`+queue+service,
		broker, group, SpansTopic, batch, u.Host, u.User.Username(), password, SpansDatabase, "kafka", "batch", "clickhouse"), nil
}

// Write puts a configuration into dir, and gives the arguments of the peer.
func Write(dir, name, config string) ([]string, error) {
	path := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write the peer's configuration: %w", err)
	}
	return []string{"--config", "file:" + path}, nil
}
