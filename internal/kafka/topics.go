package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/kvwhatif/kvwhatif/internal/retry"
)

// TopicSpec is a topic as it is wanted.
type TopicSpec struct {
	Name           string
	Partitions     int
	Replication    int           // 0: 1
	MinInSync      int           // min.insync.replicas; 0: 2 where Replication is 3 or more, else 1
	Retention      time.Duration // how long messages are kept; required
	RetentionBytes int64         // per partition; 0: no bound by size
}

// appearTimeout is how long a new topic may take to have its leaders.
const appearTimeout = 15 * time.Second

// EnsureTopics creates the topics that are missing, and sees that those that
// are there fit. It refuses a topic of another number of partitions, one of fewer
// replicas than configured, and one with three or more replicas of which a single one
// may acknowledge: an acknowledged message could be lost there. The retention of a topic that is
// there is left to its operator.
func EnsureTopics(ctx context.Context, cluster Cluster, specs []TopicSpec) error {
	for i := range specs {
		if err := specs[i].complete(); err != nil {
			return &Error{Class: Permanent, Err: err, Text: err.Error()}
		}
	}
	client, release, err := cluster.client()
	if err != nil {
		return err
	}
	defer release()
	have, err := describeTopics(ctx, client, specs)
	if err != nil {
		return err
	}
	var missing []TopicSpec
	for _, s := range specs {
		topic, ok := have[s.Name]
		if !ok {
			missing = append(missing, s)
			continue
		}
		if err := checkTopic(ctx, client, s, topic); err != nil {
			return err
		}
	}
	if err := createTopics(ctx, client, missing); err != nil {
		return err
	}
	return waitForLeaders(ctx, client, specs)
}

// complete fills in defaults and refuses what would lose data.
func (s *TopicSpec) complete() error {
	s.Replication = orDefault(s.Replication, 1)
	if s.MinInSync == 0 {
		s.MinInSync = 1
		if s.Replication >= 3 {
			s.MinInSync = 2
		}
	}
	switch {
	case s.Name == "":
		return errors.New("a Kafka topic needs a name")
	case s.Partitions < 1:
		return fmt.Errorf("Kafka topic %s: partitions is %d, and must be at least 1", s.Name, s.Partitions)
	case s.Retention <= 0:
		return fmt.Errorf("Kafka topic %s: retention must be set", s.Name)
	case s.MinInSync > s.Replication:
		return fmt.Errorf("Kafka topic %s: min.insync.replicas %d is more than its replication %d", s.Name, s.MinInSync, s.Replication)
	}
	return weak(s.Name, s.Replication, s.MinInSync)
}

// weak refuses a topic that can lose what it has acknowledged.
func weak(name string, replication, minInSync int) error {
	if replication >= 3 && minInSync < 2 {
		return fmt.Errorf("Kafka topic %s has %d replicas but min.insync.replicas %d, so an acknowledged message can be lost: set it to 2 or more",
			name, replication, minInSync)
	}
	return nil
}

// describeTopics returns those of the topics that exist. A broker that has
// just started is waited for.
func describeTopics(ctx context.Context, client *kafkago.Client, specs []TopicSpec) (map[string]kafkago.Topic, error) {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	response, err := client.Metadata(ctx, &kafkago.MetadataRequest{Topics: names})
	if err != nil {
		return nil, fmt.Errorf("ask Kafka for its topics: %w", Classify(err))
	}
	have := map[string]kafkago.Topic{}
	for _, t := range response.Topics {
		switch {
		case t.Error == nil, errors.Is(t.Error, kafkago.LeaderNotAvailable):
			have[t.Name] = t
		case !errors.Is(t.Error, kafkago.UnknownTopicOrPartition):
			return nil, fmt.Errorf("ask Kafka for topic %s: %w", t.Name, Classify(t.Error))
		}
	}
	return have, nil
}

// checkTopic compares a topic with its specification.
func checkTopic(ctx context.Context, client *kafkago.Client, s TopicSpec, topic kafkago.Topic) error {
	if n := len(topic.Partitions); n != s.Partitions {
		text := fmt.Sprintf("Kafka topic %s has %d partitions, but %d are configured: configure %d, or change the topic", s.Name, n, s.Partitions, n)
		return &Error{Class: Permanent, Err: kafkago.InvalidPartitionNumber, Text: text}
	}
	replicas := len(topic.Partitions[0].Replicas)
	if replicas < s.Replication {
		text := fmt.Sprintf("Kafka topic %s has %d replicas, but %d are configured, so the loss of a broker can lose what was acknowledged: give the topic more replicas (kafka-reassign-partitions), or configure %d",
			s.Name, replicas, s.Replication, replicas)
		return &Error{Class: Permanent, Err: kafkago.InvalidReplicationFactor, Text: text}
	}
	if replicas < 3 {
		return nil
	}
	value, err := topicConfig(ctx, client, s.Name, "min.insync.replicas")
	if err != nil {
		return err
	}
	minInSync, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("Kafka topic %s: min.insync.replicas %q is not a number", s.Name, value)
	}
	if err := weak(s.Name, replicas, minInSync); err != nil {
		return &Error{Class: Permanent, Err: err, Text: err.Error()}
	}
	return nil
}

// topicConfig asks for one setting that is in force for a topic.
func topicConfig(ctx context.Context, client *kafkago.Client, topic, key string) (string, error) {
	response, err := client.DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{Resources: []kafkago.DescribeConfigRequestResource{
		{ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{key}},
	}})
	if err != nil {
		return "", fmt.Errorf("ask Kafka for %s of %s: %w", key, topic, Classify(err))
	}
	for _, r := range response.Resources {
		if r.Error != nil {
			return "", fmt.Errorf("ask Kafka for %s of %s: %w", key, topic, Classify(r.Error))
		}
		for _, entry := range r.ConfigEntries {
			if entry.ConfigName == key {
				return entry.ConfigValue, nil
			}
		}
	}
	return "", fmt.Errorf("Kafka does not tell %s of %s", key, topic)
}

func createTopics(ctx context.Context, client *kafkago.Client, specs []TopicSpec) error {
	if len(specs) == 0 {
		return nil
	}
	topics := make([]kafkago.TopicConfig, len(specs))
	for i, s := range specs {
		topics[i] = kafkago.TopicConfig{Topic: s.Name, NumPartitions: s.Partitions, ReplicationFactor: s.Replication, ConfigEntries: s.settings()}
	}
	response, err := client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: topics})
	if err != nil {
		return fmt.Errorf("create Kafka topics: %w", Classify(err))
	}
	for name, err := range response.Errors {
		if err != nil && !errors.Is(err, kafkago.TopicAlreadyExists) {
			return fmt.Errorf("create Kafka topic %s: %w", name, Classify(err))
		}
	}
	return nil
}

func (s TopicSpec) settings() []kafkago.ConfigEntry {
	entries := []kafkago.ConfigEntry{
		{ConfigName: "retention.ms", ConfigValue: strconv.FormatInt(s.Retention.Milliseconds(), 10)},
		{ConfigName: "min.insync.replicas", ConfigValue: strconv.Itoa(s.MinInSync)},
	}
	if s.RetentionBytes > 0 {
		entries = append(entries, kafkago.ConfigEntry{ConfigName: "retention.bytes", ConfigValue: strconv.FormatInt(s.RetentionBytes, 10)})
	}
	return entries
}

// waitForLeaders returns when each partition has a leader: a write before that
// fails.
func waitForLeaders(ctx context.Context, client *kafkago.Client, specs []TopicSpec) error {
	ctx, cancel := context.WithTimeout(ctx, appearTimeout)
	defer cancel()
	for {
		have, err := describeTopics(ctx, client, specs)
		if err == nil && led(have, specs) {
			return nil
		}
		if !retry.Pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("Kafka topics have no leaders after %v: are all brokers up? (%v)", appearTimeout, err)
		}
	}
}

func led(have map[string]kafkago.Topic, specs []TopicSpec) bool {
	for _, s := range specs {
		topic, ok := have[s.Name]
		if !ok || topic.Error != nil || len(topic.Partitions) != s.Partitions {
			return false
		}
		for _, p := range topic.Partitions {
			if p.Error != nil || p.Leader.Host == "" {
				return false
			}
		}
	}
	return true
}
