package kafka_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// A member that lost a partition still covers what it had inserted of it, later
// than the new owner did: that would set the group back, and leave a lag for good.
func TestALateCommitDoesNotSetTheGroupBack(t *testing.T) {
	cluster := kafkatest.Shared(t).Cluster()
	name := topic(t, cluster, 1)
	w := writer(t, cluster)
	for range 10 {
		require.NoError(t, w.Produce(t.Context(), name, kafka.Message{Value: []byte("x")}))
	}
	r, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: name, Group: name})
	require.NoError(t, err)
	defer r.Close()
	read := make([]kafka.Message, 10)
	for i := range read {
		read[i], err = r.Fetch(t.Context())
		require.NoError(t, err)
	}
	for _, step := range []struct {
		commit int
		want   int64
	}{{4, 5}, {9, 10}, {2, 10}, {9, 10}} {
		require.NoError(t, r.Commit(t.Context(), read[step.commit]))
		committed, err := kafka.Committed(t.Context(), cluster, name, name)
		require.NoError(t, err)
		require.Equal(t, map[int]int64{0: step.want}, committed)
	}
}
