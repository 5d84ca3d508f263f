package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// EndOffsets returns, by partition, the offset that the next message will get.
// What a reader has not read yet is the difference to what it read, which is
// how lag is told on every broker.
func EndOffsets(ctx context.Context, cluster Cluster, topic string) (map[int]int64, error) {
	_, last, err := Offsets(ctx, cluster, topic)
	return last, err
}

// Offsets returns, by partition, the offset of the oldest message that is kept
// and the one that the next message will get.
func Offsets(ctx context.Context, cluster Cluster, topic string) (first, last map[int]int64, err error) {
	client, release, err := cluster.client()
	if err != nil {
		return nil, nil, err
	}
	defer release()
	have, err := describeTopics(ctx, client, []TopicSpec{{Name: topic}})
	if err != nil {
		return nil, nil, err
	}
	if _, ok := have[topic]; !ok {
		return nil, nil, &Error{Class: Retryable, Err: kafkago.UnknownTopicOrPartition, Text: fmt.Sprintf("Kafka topic %s does not exist", topic)}
	}
	var ask []kafkago.OffsetRequest
	for _, p := range have[topic].Partitions {
		ask = append(ask, kafkago.FirstOffsetOf(p.ID), kafkago.LastOffsetOf(p.ID))
	}
	response, err := client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: ask}})
	if err != nil {
		return nil, nil, fmt.Errorf("ask Kafka for the offsets of %s: %w", topic, Classify(err))
	}
	first, last = map[int]int64{}, map[int]int64{}
	for _, p := range response.Topics[topic] {
		if p.Error != nil {
			return nil, nil, fmt.Errorf("ask Kafka for the offsets of %s/%d: %w", topic, p.Partition, Classify(p.Error))
		}
		first[p.Partition], last[p.Partition] = p.FirstOffset, p.LastOffset
	}
	return first, last, nil
}
