package replay

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// Group is the consumer group of the replayer.
const Group = "kvwhatif-replay"

// KafkaSource gives the decisions of a topic of parts, a message a batch.
type KafkaSource struct {
	reader  *kafka.Reader
	decoder wire.Decoder
	logger  *slog.Logger
}

// NewKafkaSource reads topic as group Group. Close it when Run has returned.
func NewKafkaSource(cluster kafka.Cluster, topic string, logger *slog.Logger) (*KafkaSource, error) {
	if logger == nil {
		logger = slog.Default()
	}
	reader, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: topic, Group: Group, Logger: logger})
	if err != nil {
		return nil, err
	}
	return &KafkaSource{reader: reader, logger: logger}, nil
}

// Next waits for a message. A part that can not be read is passed over, for load
// makes a dead letter of it.
func (s *KafkaSource) Next(ctx context.Context) (Batch, error) {
	m, err := s.reader.Fetch(ctx)
	if err != nil {
		return Batch{}, err
	}
	var parts []*schema.Part
	for frame, err := range wire.Frames(m.Value) {
		part := &schema.Part{}
		if err == nil {
			err = s.decoder.Part(frame, part)
		}
		if err != nil {
			s.logger.Warn("replay: a part can not be read", "partition", m.Partition, "offset", m.Offset, "error", err)
			continue
		}
		if part.Kind == schema.KindContract {
			parts = append(parts, part)
		}
	}
	return Batch{Parts: parts, Ack: func(ctx context.Context) error { return s.reader.Commit(ctx, m) }}, nil
}

// Collector counts what goes wrong between Kafka and the source.
func (s *KafkaSource) Collector() prometheus.Collector { return s.reader }

// Close leaves the group.
func (s *KafkaSource) Close() error { return s.reader.Close() }
