package replay

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// TestKafkaSource reads decisions from a broker, passes over what can not be
// read, and begins after a restart where it was acknowledged.
func TestKafkaSource(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir(), Logger: quiet})
	require.NoError(t, err)
	defer broker.Stop()
	const topic = "kvreuse.parts"
	require.NoError(t, kafka.EnsureTopics(t.Context(), broker.Cluster(), []kafka.TopicSpec{{Name: topic, Partitions: 1, Retention: time.Hour}}))
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: broker.Cluster(), Logger: quiet})
	require.NoError(t, err)
	defer w.Close()

	parts := decisions(5)
	parts[1].Kind = schema.KindEngine
	whole := wire.AppendBatch(nil, parts[:3]...)
	cut := wire.AppendBatch(nil, parts[3:]...)
	cut = cut[:len(cut)-3]
	for _, m := range [][]byte{whole, []byte("nonsense"), cut} {
		require.NoError(t, w.Produce(t.Context(), topic, kafka.Message{Value: m}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := func(n int) (got []schema.TraceID) {
		s, err := NewKafkaSource(broker.Cluster(), topic, quiet)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		for range n {
			b, err := s.Next(ctx)
			require.NoError(t, err)
			for _, p := range b.Parts {
				got = append(got, p.Trace)
			}
			require.NoError(t, b.Ack(ctx))
		}
		return got
	}
	assert.Equal(t, []schema.TraceID{parts[0].Trace, parts[2].Trace}, next(1), "decisions only")
	assert.Equal(t, []schema.TraceID{parts[3].Trace}, next(2), "the rest of a broken batch is read")
}
