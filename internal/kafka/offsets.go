package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/kvwhatif/kvwhatif/internal/retry"
)

// EndOffsets returns, by partition, the offset that the next message will get.
// Lag tells how far a group is behind it.
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

// Committed returns, by partition, the offset that a group will read next, -1
// where it has committed none.
func Committed(ctx context.Context, cluster Cluster, group, topic string) (map[int]int64, error) {
	client, release, err := cluster.client()
	if err != nil {
		return nil, err
	}
	defer release()
	have, err := describeTopics(ctx, client, []TopicSpec{{Name: topic}})
	if err != nil {
		return nil, err
	}
	out := map[int]int64{}
	for _, p := range have[topic].Partitions {
		out[p.ID] = -1
	}
	response, err := fetchOffsets(ctx, client, group, topic, slices.Collect(maps.Keys(out)))
	if errors.Is(err, kafkago.GroupIdNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask Kafka for the offsets of group %s: %w", group, Classify(err))
	}
	for _, p := range response.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("ask Kafka for the offset of group %s on %s/%d: %w", group, topic, p.Partition, Classify(p.Error))
		}
		out[p.Partition] = p.CommittedOffset
	}
	return out, nil
}

// fetchOffsets asks again while the group's coordinator is starting.
func fetchOffsets(ctx context.Context, client *kafkago.Client, group, topic string, partitions []int) (response *kafkago.OffsetFetchResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err = retry.Do(ctx, askRetry, coordinatorAway, nil, func(ctx context.Context) error {
		response, err = client.OffsetFetch(ctx, &kafkago.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: partitions}})
		if err == nil {
			err = response.Error
		}
		return err
	})
	return response, err
}

// Lag returns, by partition, how many messages that are kept a group has not
// committed.
func Lag(ctx context.Context, cluster Cluster, group, topic string) (map[int]int64, error) {
	committed, err := Committed(ctx, cluster, group, topic)
	if err != nil {
		return nil, err
	}
	first, last, err := Offsets(ctx, cluster, topic)
	if err != nil {
		return nil, err
	}
	lag := map[int]int64{}
	for p, end := range last {
		lag[p] = max(0, end-max(first[p], committed[p]))
	}
	return lag, nil
}
