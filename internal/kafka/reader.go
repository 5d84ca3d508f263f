package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/kvwhatif/kvwhatif/internal/retry"
)

// Timings of a group consumer. With the library's own (5 s and 30 s) a group
// stalls for half a minute after a broker restart.
const (
	joinBackoff    = 500 * time.Millisecond
	sessionTimeout = 6 * time.Second
	heartbeat      = 2 * time.Second
	// fetchWait is how long a fetch may take where nothing comes. kafka-go has the
	// broker answer a second earlier, but only a quarter of the time earlier below
	// two seconds: on a busy machine it then takes an idle broker for a dead one.
	fetchWait  = 2 * time.Second
	fetchBytes = 8 << 20
	// lookEvery is how often a Reader sees whether its topic is still the one that it
	// reads.
	lookEvery = 10 * time.Second
)

// Waits between attempts: of a fetch, and of a question that a broker which starts
// can not answer yet.
var (
	fetchRetry = retry.Policy{First: 200 * time.Millisecond, Most: 5 * time.Second}
	askRetry   = retry.Policy{First: 200 * time.Millisecond, Most: time.Second}
)

// ReaderConfig configures a Reader. Cluster, Topic and Group are required.
type ReaderConfig struct {
	Cluster Cluster
	Topic   string
	Group   string
	Queue   int       // messages fetched ahead, of up to MaxBatchBytes each; 0: 32
	OnGap   func(Gap) // nil: the gap is only logged and counted
	// LookEvery is how often the reader sees whether the topic is still there and
	// still holds what the group has read; 0: 10 s.
	LookEvery time.Duration
	Logger    *slog.Logger // nil: slog.Default
}

// Gap is a run of messages that the broker deleted before they were read: the
// topic's retention is too short for how far the reader is behind.
type Gap struct {
	Topic     string
	Partition int
	From, To  int64 // offsets From up to, not including, To are lost
}

// Reader consumes a topic as a member of a group. Offsets are committed only
// by Commit. A group without offsets begins at the oldest message. As a Prometheus
// collector it counts what the library hides: see metrics.go.
type Reader struct {
	cfg     ReaderConfig
	dialer  *kafkago.Dialer
	metrics *readerMetrics
	next    map[int]int64 // partition to the offset expected next
	look    time.Time     // when the topic is looked at next

	mu     sync.RWMutex // guards reader, which a rewind replaces
	reader *kafkago.Reader
	closed bool
}

// NewReader makes a reader; it joins its group with the first Fetch.
func NewReader(cfg ReaderConfig) (*Reader, error) {
	if err := cfg.Cluster.Validate(); err != nil {
		return nil, fmt.Errorf("make the Kafka reader: %w", err)
	}
	if cfg.Topic == "" || cfg.Group == "" {
		return nil, errors.New("make the Kafka reader: topic and group are required")
	}
	dialer, err := cfg.Cluster.dialer()
	if err != nil {
		return nil, fmt.Errorf("make the Kafka reader: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.LookEvery == 0 {
		cfg.LookEvery = lookEvery
	}
	r := &Reader{cfg: cfg, dialer: dialer, metrics: newReaderMetrics(cfg.Topic, cfg.Group), next: map[int]int64{}}
	r.reader = r.join()
	return r, nil
}

// join makes the library's reader, which joins the group by itself.
func (r *Reader) join() *kafkago.Reader {
	return kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: r.cfg.Cluster.Brokers, Dialer: r.dialer,
		Topic: r.cfg.Topic, GroupID: r.cfg.Group, StartOffset: kafkago.FirstOffset,
		JoinGroupBackoff: joinBackoff, SessionTimeout: sessionTimeout, HeartbeatInterval: heartbeat,
		MinBytes: 1, MaxBytes: fetchBytes, MaxWait: fetchWait,
		QueueCapacity: orDefault(r.cfg.Queue, 32), WatchPartitionChanges: true,
		ErrorLogger: logTo(r.cfg.Logger),
	})
}

func (r *Reader) current() *kafkago.Reader {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.reader
}

// Fetch waits for the next message. It does not commit. A broker that is away
// is waited for. It returns ctx's error when ctx ends, io.EOF after Close, and an
// *Error that is Permanent. Not for concurrent use.
func (r *Reader) Fetch(ctx context.Context) (Message, error) {
	for failures := 0; ; {
		if !time.Now().Before(r.look) {
			r.lookAround(ctx)
			r.look = time.Now().Add(r.cfg.LookEvery)
		}
		wait, cancel := context.WithDeadline(ctx, r.look)
		m, err := r.current().FetchMessage(wait)
		late := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			r.metrics.missing.Set(0)
			r.noteGap(ctx, m)
			return m, nil
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return Message{}, err // ended by the caller, or closed
		case late && errors.Is(err, context.DeadlineExceeded):
			continue
		}
		e := Classify(err)
		if e.Class == Permanent {
			return Message{}, fmt.Errorf("read Kafka topic %s: %w", r.cfg.Topic, e)
		}
		failures++
		r.metrics.failures.Inc()
		r.cfg.Logger.Warn("kafka: fetch failed, trying again", "error", e)
		if !retry.Pause(ctx, fetchRetry.Wait(failures)) {
			return Message{}, ctx.Err()
		}
	}
}

// Commit tells the group that these messages, and all before them in their
// partitions, are done. It waits for the answer and tries again while the
// coordinator is starting or moving. Where the group has come further by another
// member, its offset stays: the library's commits say nothing of who owns a
// partition, and a member that lost one would set the group back. (A topic that is
// made again has no committed offsets: Kafka forgets them with the topic.)
func (r *Reader) Commit(ctx context.Context, messages ...Message) error {
	committed, err := Committed(ctx, r.cfg.Cluster, r.cfg.Group, r.cfg.Topic)
	if err == nil { // else a step back is only a second reading
		messages = slices.DeleteFunc(slices.Clone(messages), func(m Message) bool { return m.Offset < committed[m.Partition] })
	}
	if len(messages) == 0 {
		return nil
	}
	return r.commit(ctx, messages...)
}

// commit sets the group to just after these messages, forward or back.
func (r *Reader) commit(ctx context.Context, messages ...Message) error {
	err := retry.Do(ctx, askRetry, coordinatorAway, nil, func(ctx context.Context) error {
		return r.current().CommitMessages(ctx, messages...)
	})
	if err != nil {
		return fmt.Errorf("commit Kafka offsets: %w", Classify(err))
	}
	return nil
}

// coordinatorAway is true for codes 14, 15 and 16, which the first calls of a
// group get until the internal topics exist.
func coordinatorAway(err error) bool {
	return errors.Is(err, kafkago.GroupLoadInProgress) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable) ||
		errors.Is(err, kafkago.NotCoordinatorForGroup)
}

// Close leaves the group.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if err := r.reader.Close(); err != nil {
		return fmt.Errorf("close the Kafka reader: %w", err)
	}
	return nil
}
