package kafka_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

func TestEnsureTopicsRefuses(t *testing.T) {
	cluster := embedded(t, t.TempDir(), "").Cluster()
	for text, spec := range map[string]kafka.TopicSpec{
		"needs a name":              {Partitions: 1, Retention: time.Hour},
		"must be at least 1":        {Name: "a", Retention: time.Hour},
		"retention must be set":     {Name: "a", Partitions: 1},
		"can be lost":               {Name: "a", Partitions: 1, Retention: time.Hour, Replication: 3, MinInSync: 1},
		"more than its replication": {Name: "a", Partitions: 1, Retention: time.Hour, Replication: 2, MinInSync: 3},
	} {
		err := kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec})
		require.ErrorContains(t, err, text)
		require.False(t, kafka.IsRetryable(err), text)
	}
	require.ErrorContains(t, kafka.EnsureTopics(t.Context(), kafka.Cluster{}, nil), "no Kafka brokers given")
}

// A topic made by others, with three replicas of which one may acknowledge, is
// refused at the start and not when it has lost something.
func TestEnsureTopicsRefusesAWeakTopicOfOthers(t *testing.T) {
	cluster := weakCluster(t)
	spec := kafka.TopicSpec{Name: "weak", Partitions: 1, Replication: 3, Retention: time.Hour}
	err := kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec})
	require.ErrorContains(t, err, "min.insync.replicas 1, so an acknowledged message can be lost")
	require.False(t, kafka.IsRetryable(err))
	spec.Name = "single"
	require.NoError(t, kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{{Name: "single", Partitions: 1, Retention: time.Hour}}))
	err = kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec})
	require.ErrorContains(t, err, "has 1 replicas, but 3 are configured")
	require.False(t, kafka.IsRetryable(err))
	spec.Name = "strong"
	require.NoError(t, kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec}))
	require.NoError(t, kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec}))
}

func TestClusterRefuses(t *testing.T) {
	for text, c := range map[string]kafka.Cluster{
		"no Kafka brokers":             {},
		"is not HOST:PORT":             {Brokers: []string{"localhost"}},
		"is not one of PLAIN":          {Brokers: []string{"h:1"}, User: "u", Mechanism: "OTHER"},
		"read the certificate":         {Brokers: []string{"h:1"}, TLS: true, CA: "/missing"},
		"holds no PEM certificate":     {Brokers: []string{"h:1"}, TLS: true, CA: os.Args[0]},
		"compression \"x\" is not":     {Brokers: []string{"h:1"}},
		"topic and group are required": {Brokers: []string{"h:1"}, TLS: true},
	} {
		_, err := kafka.NewWriter(kafka.WriterConfig{Cluster: c, Compression: "x"})
		if strings.HasPrefix(text, "topic") {
			_, err = kafka.NewReader(kafka.ReaderConfig{Cluster: c})
		}
		require.ErrorContains(t, err, text)
	}
	require.NoError(t, kafka.Cluster{Brokers: []string{"h:1"}, User: "u", Password: "p"}.Validate())
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want kafka.Class
	}{
		{kafkago.Unknown, kafka.Retryable},
		{kafkago.NotEnoughReplicas, kafka.Retryable},
		{kafkago.UnknownTopicOrPartition, kafka.Retryable},
		{kafkago.TopicAuthorizationFailed, kafka.Permanent},
		{kafkago.MessageSizeTooLarge, kafka.Permanent},
		{kafkago.WriteErrors{nil, kafkago.Unknown}, kafka.Retryable},
		{kafkago.WriteErrors{kafkago.Unknown, nil, kafkago.InvalidRecord}, kafka.Permanent},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), kafka.Retryable},
		{context.DeadlineExceeded, kafka.Retryable},
		{errors.New("new"), kafka.Retryable},
	} {
		e := kafka.Classify(c.err)
		require.Equal(t, c.want, e.Class, "%v", c.err)
		require.NotContains(t, e.Text, "\n")
		require.Equal(t, c.want == kafka.Retryable, kafka.IsRetryable(fmt.Errorf("x: %w", e)))
	}
	require.False(t, kafka.IsRetryable(nil))
	require.False(t, kafka.IsRetryable(context.Canceled))
}

// With a broker that does not answer, what is handed over keeps its room, and
// the next call is told to wait.
func TestInFlightIsBounded(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	w, err := kafka.NewWriter(kafka.WriterConfig{
		Cluster: kafka.Brokers(silent.Addr().String()), MaxInFlight: 1000, RoomWait: time.Millisecond,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- w.Produce(ctx, "t", kafka.Message{Value: make([]byte, 900)}) }()
	}
	require.ErrorIs(t, <-results, kafka.ErrBusy)
	cancel()
	require.ErrorIs(t, <-results, context.Canceled)
	err = w.Produce(t.Context(), "t", kafka.Message{Value: make([]byte, 900)})
	require.ErrorIs(t, err, kafka.ErrBusy, "a caller that gave up must not free what is still queued")
	require.True(t, kafka.IsRetryable(err))
}

func TestEmbeddedRefuses(t *testing.T) {
	for addr, text := range map[string]string{
		"nonsense":        "is not 127.0.0.1:PORT",
		"0.0.0.0:9092":    "for this machine only",
		"127.0.0.1:99999": "no port from 0 to 65535",
	} {
		_, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir(), Addr: addr})
		require.ErrorContains(t, err, text)
	}
	_, err := kafka.StartEmbedded(kafka.EmbeddedConfig{})
	require.ErrorContains(t, err, "no directory")
	taken := embedded(t, t.TempDir(), "")
	_, err = kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir(), Addr: taken.Addr()})
	require.ErrorContains(t, err, "in use")
}

// What was acknowledged before a kill -9 of the process is there after it, at
// the same address, and so are the offsets.
func TestEmbeddedKeepsMessagesOverKill(t *testing.T) {
	dir := t.TempDir()
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), helperDir+"="+dir)
	helper.Stderr = os.Stderr
	out, err := helper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, helper.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr := strings.TrimSpace(line)
	cluster := kafka.Brokers(addr)
	topic := topic(t, cluster, 2)
	require.NoError(t, writer(t, cluster).Produce(t.Context(), topic, messages(0, 500)...))
	first := fetch(t, cluster, topic, 200, true)
	require.NoError(t, helper.Process.Kill())
	_ = helper.Wait()

	broker := embedded(t, dir, addr)
	require.Equal(t, addr, broker.Addr())
	checkSpread(t, broker.Cluster(), topic, 500, 2)
	checkLag(t, broker.Cluster(), topic, 300)
	for m := range fetch(t, broker.Cluster(), topic, 300, true) {
		require.NotContains(t, first, m)
	}
}

// A consumer goes on after its broker was away.
func TestReaderOutlivesABrokerRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broker := embedded(t, dir, "")
	topic := topic(t, broker.Cluster(), 1)
	w := writer(t, broker.Cluster())
	require.NoError(t, w.Produce(t.Context(), topic, messages(0, 10)...))
	r, err := kafka.NewReader(kafka.ReaderConfig{Cluster: broker.Cluster(), Topic: topic, Group: "g"})
	require.NoError(t, err)
	defer r.Close()
	read(t, r, 10)
	broker.Stop()
	err = w.Produce(t.Context(), topic, messages(10, 1)...)
	require.True(t, kafka.IsRetryable(err), "%v", err)
	again := embedded(t, dir, broker.Addr())
	require.NoError(t, w.Produce(t.Context(), topic, messages(10, 10)...))
	began := time.Now()
	read(t, r, 10)
	t.Logf("the group went on %v after the restart", time.Since(began))
	again.Stop()
}

func read(t *testing.T, r *kafka.Reader, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range n {
		m, err := r.Fetch(ctx)
		require.NoError(t, err)
		require.NoError(t, r.Commit(ctx, m))
	}
}

// helperDir names the directory of the broker that this test binary, started
// again as a program, runs until it is killed.
const helperDir = "KVWHATIF_TEST_KAFKA_DIR"

func helperProcess() {
	dir := os.Getenv(helperDir)
	if dir == "" {
		return
	}
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(broker.Addr())
	select {}
}
