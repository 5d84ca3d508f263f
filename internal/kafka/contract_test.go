package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

func TestMain(m *testing.M) {
	helperProcess()
	code := m.Run()
	kafkatest.StopShared()
	os.Exit(code)
}

// brokers are the two that everything must work with.
var brokers = map[string]func(testing.TB) kafka.Cluster{
	"embedded": func(t testing.TB) kafka.Cluster { return embedded(t, t.TempDir(), "").Cluster() },
	"apache":   func(t testing.TB) kafka.Cluster { return kafkatest.Shared(t).Cluster() },
}

func embedded(t testing.TB, dir, addr string) *kafka.Embedded {
	t.Helper()
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: dir, Addr: addr})
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	return broker
}

var topics atomic.Int64

// topic makes a topic of this test's own.
func topic(t testing.TB, cluster kafka.Cluster, partitions int) string {
	t.Helper()
	name := fmt.Sprintf("test.%d.%d", os.Getpid(), topics.Add(1))
	spec := kafka.TopicSpec{Name: name, Partitions: partitions, Retention: time.Hour}
	require.NoError(t, kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec}))
	return name
}

func writer(t testing.TB, cluster kafka.Cluster) *kafka.Writer {
	t.Helper()
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: cluster})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// patience ends what hangs; a machine that is only busy is waited for.
const patience = 5 * time.Minute

func messages(from, n int) []kafka.Message {
	out := make([]kafka.Message, n)
	for i := range out {
		out[i].Value = fmt.Appendf(nil, "message %d", from+i)
	}
	return out
}

func TestProduceFetchCommit(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 3)
			w := writer(t, cluster)
			for i := range 4 {
				require.NoError(t, w.Produce(t.Context(), topic, messages(i*25, 25)...))
			}
			checkSpread(t, cluster, topic, 100, 3)
			checkLag(t, cluster, topic, 100)
			first := fetch(t, cluster, topic, 60, true)
			checkLag(t, cluster, topic, 40)
			rest := fetch(t, cluster, topic, 40, false)
			again := fetch(t, cluster, topic, 40, true)
			require.Equal(t, rest, again, "what was not committed comes again")
			for m := range rest {
				require.NotContains(t, first, m)
			}
			require.Len(t, first, 60)
			require.Len(t, rest, 40)
		})
	}
}

// checkSpread sees that keyless messages are in every partition, and that the
// end offsets count them.
func checkSpread(t *testing.T, cluster kafka.Cluster, topic string, total, partitions int) {
	t.Helper()
	first, last, err := kafka.Offsets(t.Context(), cluster, topic)
	require.NoError(t, err)
	require.Len(t, last, partitions)
	sum := int64(0)
	for p, end := range last {
		require.Zero(t, first[p])
		require.Greater(t, end, int64(total/partitions/2), "partition %d", p)
		sum += end
	}
	require.EqualValues(t, total, sum)
}

func checkLag(t *testing.T, cluster kafka.Cluster, topic string, want int64) {
	t.Helper()
	lag, err := kafka.Lag(t.Context(), cluster, "group-of-"+topic, topic)
	require.NoError(t, err)
	sum := int64(0)
	for _, n := range lag {
		sum += n
	}
	require.Equal(t, want, sum)
}

// What retention deletes before it is read is reported, whether the reader was
// away or there.
func TestReaderReportsWhatWasDeleted(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 1)
			require.NoError(t, writer(t, cluster).Produce(t.Context(), topic, messages(0, 100)...))
			fetch(t, cluster, topic, 10, true)
			deleteBefore(t, cluster, topic, 50)
			var gaps []kafka.Gap
			r, err := kafka.NewReader(kafka.ReaderConfig{
				Cluster: cluster, Topic: topic, Group: "group-of-" + topic, OnGap: func(g kafka.Gap) { gaps = append(gaps, g) },
			})
			require.NoError(t, err)
			defer r.Close()
			m, err := r.Fetch(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 50, m.Offset)
			require.Equal(t, []kafka.Gap{{Topic: topic, Partition: 0, From: 10, To: 50}}, gaps)
			require.EqualValues(t, 40, metric(t, r, "kvwhatif_kafka_lost_messages_total"))
		})
	}
}

// deleteBefore does at once what retention does in time.
func deleteBefore(t *testing.T, cluster kafka.Cluster, topic string, offset int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers...))
	require.NoError(t, err)
	defer client.Close()
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.TimeoutMillis = 10_000
	request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
	response, err := request.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, response.Topics[0].Partitions[0].ErrorCode)
}

// fetch reads n messages as a member of the group, and commits them if told.
func fetch(t *testing.T, cluster kafka.Cluster, topic string, n int, commit bool) map[string]bool {
	t.Helper()
	r, err := kafka.NewReader(kafka.ReaderConfig{
		Cluster: cluster, Topic: topic, Group: "group-of-" + topic,
		OnGap: func(g kafka.Gap) { t.Errorf("gap %+v", g) },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := map[string]bool{}
	for len(seen) < n {
		m, err := r.Fetch(ctx)
		require.NoError(t, err)
		seen[string(m.Value)] = true
		if commit {
			require.NoError(t, r.Commit(ctx, m))
		}
	}
	return seen
}

func TestEnsureTopicsIsIdempotentAndRefusesOtherPartitions(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 2)
			spec := kafka.TopicSpec{Name: topic, Partitions: 2, Retention: time.Hour}
			require.NoError(t, kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec}))
			spec.Partitions = 4
			err := kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec})
			require.ErrorContains(t, err, "has 2 partitions, but 4 are configured")
			require.False(t, kafka.IsRetryable(err))
		})
	}
}

func TestEndOffsetsOfAMissingTopic(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			_, err := kafka.EndOffsets(t.Context(), start(t), "nowhere")
			require.ErrorContains(t, err, "topic nowhere does not exist")
		})
	}
}

func TestTooLargeIsPermanent(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 1)
			w := writer(t, cluster)
			require.NoError(t, w.Produce(t.Context(), topic, kafka.Message{Value: make([]byte, 900_000)}))
			err := w.Produce(t.Context(), topic, kafka.Message{Value: make([]byte, kafka.MaxBatchBytes)})
			require.ErrorContains(t, err, "is larger than")
			require.False(t, kafka.IsRetryable(err))
		})
	}
}

// logged is a logger, and what was logged to it.
func logged() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var lines strings.Builder
	logger := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(b)
	}), nil))
	return logger, func() string {
		mu.Lock()
		defer mu.Unlock()
		return lines.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// metric is the value of a reader's metric.
func metric(t *testing.T, r *kafka.Reader, name string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(r))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if m := f.GetMetric()[0]; f.GetName() == name {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// A group that has read further than its topic goes is said loudly, and reads all
// that there is: the topic was made anew, or lost its end. The library would wait
// for ever until the offset is reached.
func TestReaderGoesBackWhereTheTopicEndsBeforeWhatWasRead(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 1)
			require.NoError(t, writer(t, cluster).Produce(t.Context(), topic, messages(0, 5)...))
			client := kafkago.Client{Addr: kafkago.TCP(cluster.Brokers...)}
			require.Eventually(t, func() bool {
				response, err := client.OffsetCommit(t.Context(), &kafkago.OffsetCommitRequest{GroupID: "group-of-" + topic, GenerationID: -1,
					Topics: map[string][]kafkago.OffsetCommit{topic: {{Partition: 0, Offset: 100}}}})
				return err == nil && response.Topics[topic][0].Error == nil
			}, patience, 100*time.Millisecond)
			logger, lines := logged()
			r, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: topic, Group: "group-of-" + topic, Logger: logger, LookEvery: 100 * time.Millisecond})
			require.NoError(t, err)
			defer r.Close()
			read(t, r, 5)
			require.Contains(t, lines(), "was made anew, or lost messages")
			require.EqualValues(t, 1, metric(t, r, "kvwhatif_kafka_rewinds_total"))
			checkLag(t, cluster, topic, 0)
		})
	}
}

// A topic that is deleted under a reader is said loudly; when it is there again, the
// reader reads what is new in it, from the beginning.
func TestTopicDeletedWhileItIsRead(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 1)
			w := writer(t, cluster)
			require.NoError(t, w.Produce(t.Context(), topic, messages(0, 10)...))
			logger, lines := logged()
			r, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: topic, Group: "group-of-" + topic, Logger: logger, LookEvery: 100 * time.Millisecond})
			require.NoError(t, err)
			defer r.Close()
			read(t, r, 10)
			client := kafkago.Client{Addr: kafkago.TCP(cluster.Brokers...)}
			_, err = client.DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{topic}})
			require.NoError(t, err)
			again := make(chan string)
			go func() {
				defer close(again)
				if m, err := r.Fetch(t.Context()); err == nil {
					again <- string(m.Value)
				}
			}()
			require.Eventually(t, func() bool { return metric(t, r, "kvwhatif_kafka_topic_missing") == 1 }, patience, 50*time.Millisecond)
			require.Contains(t, lines(), "make it again")
			spec := kafka.TopicSpec{Name: topic, Partitions: 1, Retention: time.Hour}
			require.NoError(t, kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec}))
			require.Eventually(t, func() bool { return w.Produce(t.Context(), topic, messages(70, 1)...) == nil }, patience, 50*time.Millisecond)
			require.Equal(t, "message 70", <-again)
			require.Zero(t, metric(t, r, "kvwhatif_kafka_topic_missing"))
		})
	}
}

// Scan gives all of a topic in order, over more than one answer of the broker.
func TestScanReadsAllThatIsThere(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 2)
			w := writer(t, cluster)
			for i := range 40 {
				require.NoError(t, w.Produce(t.Context(), topic, kafka.Message{Value: fmt.Appendf(make([]byte, 400_000), "%d", i)}))
			}
			deleteBefore(t, cluster, topic, 3)
			next := map[int]int64{0: 3}
			require.NoError(t, kafka.Scan(t.Context(), cluster, topic, func(m kafka.Message) error {
				require.Equal(t, next[m.Partition], m.Offset)
				require.Greater(t, len(m.Value), 400_000)
				next[m.Partition]++
				return nil
			}))
			require.Equal(t, map[int]int64{0: 20, 1: 20}, next)
			stop := errors.New("stop")
			require.ErrorIs(t, kafka.Scan(t.Context(), cluster, topic, func(kafka.Message) error { return stop }), stop)
		})
	}
}
