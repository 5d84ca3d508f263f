package otlp

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/collector/publish"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// The SDK's spans come out of a broker as parts and dead letters.
func TestThroughABroker(t *testing.T) {
	t.Parallel()
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	require.NoError(t, kafka.EnsureTopics(t.Context(), broker.Cluster(), []kafka.TopicSpec{
		{Name: schema.TopicParts, Partitions: 1, Retention: time.Hour}, {Name: schema.TopicDead, Partitions: 1, Retention: time.Hour}}))
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: broker.Cluster(), Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	r := start(t, local(), publish.New(w))

	require.ErrorContains(t, exportParts(t, exporters(t, r)["grpc"], part(1), part(-2), part(3)), "1 spans refused")

	var ttft []float64
	for frame, err := range wire.Frames(firstMessage(t, broker.Cluster(), schema.TopicParts)) {
		require.NoError(t, err)
		var p schema.Part
		require.NoError(t, wire.DecodePart(frame, &p))
		ttft = append(ttft, p.Observed.TTFT.V)
	}
	require.Equal(t, []float64{1, 3}, ttft)

	var l wire.DeadLetter
	require.NoError(t, wire.DecodeDeadLetter(firstMessage(t, broker.Cluster(), schema.TopicDead), &l))
	require.Equal(t, "attribute kvreuse.ttft: -2, at least 0", l.Reason)
	require.NotZero(t, l.SHA256)

	// The dead letter can be sent again as it is.
	a, body := post(t, r, pathTraces, typeProtobuf, "", l.Bytes)
	require.Equal(t, 200, a.StatusCode)
	require.Contains(t, string(body), l.Reason)

	// A broker that is gone is a reason to wait, not to lose.
	broker.Stop()
	a, _ = post(t, r, pathTraces, typeJSON, "", []byte(jsonContract("1")))
	require.Equal(t, 503, a.StatusCode)
}

func firstMessage(t *testing.T, cluster kafka.Cluster, topic string) []byte {
	t.Helper()
	reader, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: topic, Group: "test-" + topic, Logger: quiet()})
	require.NoError(t, err)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := reader.Fetch(ctx)
	require.NoError(t, err)
	return m.Value
}
