package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// PartitionReader reads one partition without a group: for people who look on,
// and for tools.
type PartitionReader struct{ reader *kafkago.Reader }

// NewPartitionReader makes a reader of one partition that begins at offset.
func NewPartitionReader(cluster Cluster, topic string, partition int, offset int64) (*PartitionReader, error) {
	if err := cluster.Validate(); err != nil {
		return nil, fmt.Errorf("make the Kafka reader: %w", err)
	}
	dialer, err := cluster.dialer()
	if err != nil {
		return nil, fmt.Errorf("make the Kafka reader: %w", err)
	}
	r := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: cluster.Brokers, Dialer: dialer, Topic: topic, Partition: partition,
		MinBytes: 1, MaxBytes: fetchBytes, MaxWait: fetchWait,
	})
	if err := r.SetOffset(offset); err != nil {
		return nil, fmt.Errorf("read %s/%d from offset %d: %w", topic, partition, offset, err)
	}
	return &PartitionReader{reader: r}, nil
}

// Read waits for the next message. It returns ctx's error when ctx ends, and an
// *Error otherwise.
func (r *PartitionReader) Read(ctx context.Context) (Message, error) {
	m, err := r.reader.ReadMessage(ctx)
	switch {
	case err == nil:
		return m, nil
	case ctx.Err() != nil:
		return m, ctx.Err()
	}
	return m, Classify(err)
}

// Close ends it.
func (r *PartitionReader) Close() error { return r.reader.Close() }
