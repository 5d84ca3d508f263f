package kafka

import (
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

func TestWhatAnAdministratorMendsIsAReasonToWait(t *testing.T) {
	for code, want := range map[kafkago.Error]Class{
		kafkago.TopicAuthorizationFailed: Retryable, kafkago.SASLAuthenticationFailed: Retryable,
		kafkago.MessageSizeTooLarge: Permanent, kafkago.InvalidRecord: Permanent, kafkago.NotEnoughReplicas: Retryable,
	} {
		e := forSender(Classify(kafkago.WriteErrors{nil, code}))
		require.Equal(t, want, e.Class, code)
		require.Contains(t, e.Text, "1 of 2 messages not acknowledged")
		require.ErrorAs(t, e, new(kafkago.WriteErrors))
	}
}

// What the writer asks of the library: acknowledged by all replicas in sync, told
// to the caller, and no topic made by itself.
func TestTheWriterWaitsForAllReplicas(t *testing.T) {
	w, err := NewWriter(WriterConfig{Cluster: Brokers("127.0.0.1:1")})
	require.NoError(t, err)
	defer w.Close()
	require.Equal(t, kafkago.RequireAll, w.writer.RequiredAcks)
	require.False(t, w.writer.Async)
	require.Nil(t, w.writer.Completion)
	require.False(t, w.writer.AllowAutoTopicCreation)
	require.Less(t, w.writer.BatchBytes, int64(1_048_588), "the broker's default bound")
}
