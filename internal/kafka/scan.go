package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

const (
	// scanWait is how long a broker may hold a question back that it has no answer to.
	scanWait = 500 * time.Millisecond
	// scanPatience is how long a broker may give nothing of what it keeps.
	scanPatience = 30 * time.Second
)

// Scan visits what a topic holds at this moment, partition by partition and from
// the oldest message to the newest, without a group. It ends with visit's error.
func Scan(ctx context.Context, cluster Cluster, topic string, visit func(Message) error) error {
	first, last, err := Offsets(ctx, cluster, topic)
	if err != nil {
		return err
	}
	client, release, err := cluster.client()
	if err != nil {
		return err
	}
	defer release()
	for _, partition := range slices.Sorted(maps.Keys(last)) {
		s := scan{client: client, cluster: cluster, topic: topic, partition: partition, next: first[partition], end: last[partition]}
		if err := s.run(ctx, visit); err != nil {
			return fmt.Errorf("read Kafka topic %s/%d: %w", topic, partition, err)
		}
	}
	return nil
}

// scan is how far a partition is read.
type scan struct {
	client    *kafkago.Client
	cluster   Cluster
	topic     string
	partition int
	next, end int64
}

func (s *scan) run(ctx context.Context, visit func(Message) error) error {
	moved := time.Now()
	for s.next < s.end {
		before := s.next
		err := s.fetch(ctx, visit)
		if errors.Is(err, kafkago.OffsetOutOfRange) { // retention took it meanwhile
			var first map[int]int64
			if first, _, err = Offsets(ctx, s.cluster, s.topic); err == nil {
				s.next = max(s.next, first[s.partition])
			}
		}
		if err != nil {
			return err
		}
		if s.next > before {
			moved = time.Now()
		}
		if time.Since(moved) > scanPatience {
			return &Error{Class: Retryable, Err: context.DeadlineExceeded,
				Text: fmt.Sprintf("Kafka gives nothing from offset %d on, of %d: are all brokers up?", s.next, s.end)}
		}
	}
	return nil
}

// fetch asks once, and visits what comes. An error of visit is given as it is.
func (s *scan) fetch(ctx context.Context, visit func(Message) error) error {
	response, err := s.client.Fetch(ctx, &kafkago.FetchRequest{
		Topic: s.topic, Partition: s.partition, Offset: s.next, MinBytes: 1, MaxBytes: fetchBytes, MaxWait: scanWait,
	})
	if err == nil {
		err = response.Error
	}
	if err != nil {
		return Classify(err)
	}
	for {
		record, err := response.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return Classify(err)
		}
		m := Message{Topic: s.topic, Partition: s.partition, Offset: record.Offset, Time: record.Time, Headers: record.Headers}
		if m.Value, err = kafkago.ReadAll(record.Value); err != nil {
			return Classify(err)
		}
		if m.Offset < s.next { // a batch begins before the offset asked for
			continue
		}
		if m.Offset >= s.end {
			s.next = s.end
			return nil
		}
		if err := visit(m); err != nil {
			return err
		}
		s.next = m.Offset + 1
	}
}
