package kafka_test

import (
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// weakCluster has three brokers and a topic that can lose what it acknowledged.
func weakCluster(t *testing.T) kafka.Cluster {
	t.Helper()
	three, err := kfake.NewCluster(kfake.NumBrokers(3))
	require.NoError(t, err)
	t.Cleanup(three.Close)
	client := kafkago.Client{Addr: kafkago.TCP(three.ListenAddrs()...)}
	response, err := client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{
		{Topic: "weak", NumPartitions: 1, ReplicationFactor: 3,
			ConfigEntries: []kafkago.ConfigEntry{{ConfigName: "min.insync.replicas", ConfigValue: "1"}}},
	}})
	require.NoError(t, err)
	require.NoError(t, response.Errors["weak"])
	return kafka.Brokers(three.ListenAddrs()...)
}
