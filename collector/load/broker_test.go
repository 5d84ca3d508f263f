package load

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// TestThroughABroker loads what the embedded broker holds, restarts, and loads
// the rest: the second load begins where the first had committed.
func TestThroughABroker(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir(), Logger: quiet})
	require.NoError(t, err)
	defer broker.Stop()
	cluster := kafka.Brokers(broker.Addr())
	require.NoError(t, kafka.EnsureTopics(ctx, cluster, []kafka.TopicSpec{
		{Name: schema.TopicParts, Partitions: 3, Retention: time.Hour}, {Name: schema.TopicDead, Partitions: 1, Retention: time.Hour}}))
	writer, err := kafka.NewWriter(kafka.WriterConfig{Cluster: cluster, Logger: quiet})
	require.NoError(t, err)
	defer writer.Close()
	w := newWorld(t)
	for half := range uint64(2) {
		for i := half * 50; i < half*50+50; i++ {
			require.NoError(t, writer.Produce(ctx, schema.TopicParts, kafka.Message{Value: wire.AppendBatch(nil, contract(i, time.Duration(i)*time.Second))}))
		}
		require.NoError(t, writer.Produce(ctx, schema.TopicParts, kafka.Message{Value: []byte("poison")}))
		reader, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: schema.TopicParts, Group: Group, Logger: quiet})
		require.NoError(t, err)
		l, err := New(w.cfg, Options{Conn: w.conn, Source: reader, Dead: writer, Logger: quiet})
		require.NoError(t, err)
		inner, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- l.Run(inner) }()
		ends, err := kafka.EndOffsets(ctx, cluster, schema.TopicParts)
		require.NoError(t, err)
		require.NoError(t, l.WaitFor(ctx, ends))
		require.NoError(t, l.Flush(ctx))
		require.EqualValues(t, half*50+50, w.number("SELECT sum(n) FROM "+currentSlices))
		stop()
		require.NoError(t, <-done)
		require.NoError(t, reader.Close())
	}
	require.EqualValues(t, 100, w.number("SELECT count() FROM requests"), "not FINAL: nothing was read twice")
	require.EqualValues(t, 102, w.number("SELECT sum(next) FROM positions FINAL"))
	dead, err := kafka.EndOffsets(ctx, cluster, schema.TopicDead)
	require.NoError(t, err)
	require.Equal(t, map[int]int64{0: 2}, dead)
}
