package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// senders produce numbered messages, each again until it is acknowledged, as an
// OTLP client does that is told to wait.
type senders struct {
	t     *testing.T
	stop  context.CancelFunc
	group sync.WaitGroup

	mu    sync.Mutex
	acked map[string]bool
	errs  []error
}

func send(t *testing.T, cluster kafka.Cluster, topic string, n int) *senders {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &senders{t: t, stop: cancel, acked: map[string]bool{}}
	w := writer(t, cluster)
	for i := range n {
		s.group.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				s.one(ctx, w, topic, fmt.Sprintf("%d of sender %d", k, i))
			}
		})
	}
	t.Cleanup(func() { cancel(); s.group.Wait() })
	return s
}

func (s *senders) one(ctx context.Context, w *kafka.Writer, topic, text string) {
	for ctx.Err() == nil {
		err := w.Produce(ctx, topic, kafka.Message{Value: []byte(text)})
		s.mu.Lock()
		if err == nil {
			s.acked[text] = true
		} else if ctx.Err() == nil {
			s.errs = append(s.errs, err)
		}
		s.mu.Unlock()
		if err == nil {
			return
		}
	}
}

func (s *senders) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

// more waits until n more are acknowledged.
func (s *senders) more(n int) {
	s.t.Helper()
	want := s.count() + n
	require.Eventually(s.t, func() bool { return s.count() >= want }, patience, 10*time.Millisecond, "errors: %v", s.failed())
}

func (s *senders) failed() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.errs...)
}

// end stops the senders, and sees that all that they were refused for can be sent
// again, and that all that was acknowledged is there.
func (s *senders) end(cluster kafka.Cluster, topic string) {
	s.t.Helper()
	s.stop()
	s.group.Wait()
	for _, err := range s.failed() {
		require.True(s.t, kafka.IsRetryable(err), "%v", err)
	}
	there := map[string]bool{}
	require.NoError(s.t, kafka.Scan(s.t.Context(), cluster, topic, func(m kafka.Message) error {
		there[string(m.Value)] = true
		return nil
	}))
	for text := range s.acked {
		require.True(s.t, there[text], "%q was acknowledged and is not there", text)
	}
	s.t.Logf("%d acknowledged and there, %d calls told to send again", len(s.acked), len(s.errs))
}

// What was accepted is there though the only broker is killed in mid-produce, and
// what was not is told in a way that has the sender come again.
func TestABrokerKilledInMidProduceLosesNothing(t *testing.T) {
	broker := kafkatest.Shared(t)
	topic := topic(t, broker.Cluster(), 2)
	s := send(t, broker.Cluster(), topic, 8)
	s.more(50)
	broker.Kill()
	require.NoError(t, broker.Restart())
	s.more(50)
	s.end(broker.Cluster(), topic)
}

// Of three brokers one may die, whichever leads, and all goes on. With two dead
// senders are told to wait, and when one is back nothing acknowledged is missing.
func TestThreeBrokersOfWhichSomeDie(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Brokers(t, 3)
	cluster := kafkatest.All(brokers)
	spec := kafka.TopicSpec{Name: "replicated", Partitions: 3, Replication: 3, Retention: time.Hour}
	require.Eventually(t, func() bool {
		return kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{spec}) == nil
	}, patience, 100*time.Millisecond)
	s := send(t, cluster, spec.Name, 4)
	seen := follow(t, cluster, spec.Name)
	s.more(50)

	began := time.Now()
	at := func(what string) { t.Logf("%5.1f s: %s", time.Since(began).Seconds(), what) }
	brokers[1].Kill() // it leads a partition of the three
	s.more(200)
	sent := s.count() // senders may be faster than the consumer
	require.Eventually(t, func() bool { return seen.count() >= sent }, patience, 10*time.Millisecond, "the consumer goes on")

	at("one dead, and all goes on")
	brokers[2].Kill()
	require.Eventually(t, func() bool { return refusedFor(s.failed(), kafkago.NotEnoughReplicas) }, patience, 10*time.Millisecond,
		"with one replica left nothing is acknowledged")
	at("two dead, and senders are told to wait")
	require.NoError(t, brokers[1].Restart())
	s.more(100)
	at("one is back, and all goes on")
	s.end(cluster, spec.Name)
	// On a starved machine the offsets of the group may have been on the third alone.
	require.NoError(t, brokers[2].Restart())
	require.Eventually(t, func() bool { return seen.has(s.acked) }, patience, 10*time.Millisecond, "the consumer has all that was acknowledged")
}

func refusedFor(errs []error, code kafkago.Error) bool {
	for _, err := range errs {
		if e := kafka.Classify(err); e.Code == int(code) {
			return true
		}
	}
	return false
}

// consumer is a member of a group that notes and commits what it reads.
type consumer struct {
	stop func()
	*seen
}

// seen is what all consumers of a group have read.
type seen struct {
	mu    sync.Mutex
	texts map[string]bool
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.texts)
}

func (s *seen) has(all map[string]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for text := range all {
		if !s.texts[text] {
			return false
		}
	}
	return true
}

func follow(t *testing.T, cluster kafka.Cluster, topic string) *consumer {
	t.Helper()
	return join(t, cluster, topic, &seen{texts: map[string]bool{}})
}

func join(t *testing.T, cluster kafka.Cluster, topic string, into *seen) *consumer {
	t.Helper()
	r, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: topic, Group: "g-" + topic,
		OnGap: func(g kafka.Gap) { t.Errorf("gap %+v", g) }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := r.Fetch(ctx)
			if err != nil {
				return
			}
			into.mu.Lock()
			into.texts[string(m.Value)] = true
			into.mu.Unlock()
			if m.Offset%20 == 0 {
				_ = r.Commit(ctx, m) // what is not committed comes again
			}
		}
	}()
	var once sync.Once
	stop := func() { once.Do(func() { cancel(); <-done; r.Close() }) }
	t.Cleanup(stop)
	return &consumer{stop: stop, seen: into}
}

// Consumers that join and leave while messages come miss none.
func TestConsumersThatComeAndGoMissNothing(t *testing.T) {
	t.Parallel()
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			cluster := start(t)
			topic := topic(t, cluster, 4)
			s := send(t, cluster, topic, 4)
			first := follow(t, cluster, topic)
			progress := func() {
				t.Helper()
				s.more(100)
				want := s.count()
				require.Eventually(t, func() bool { return first.count() >= want }, patience, 10*time.Millisecond)
			}
			progress()
			second := join(t, cluster, topic, first.seen)
			progress()
			first.stop()
			progress()
			third := join(t, cluster, topic, first.seen)
			progress()
			second.stop()
			progress()
			s.end(cluster, topic)
			require.Eventually(t, func() bool { return first.has(s.acked) }, patience, 10*time.Millisecond)
			third.stop()
		})
	}
}
