package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	kafkago "github.com/segmentio/kafka-go"
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
	fetchWait   = 2 * time.Second
	fetchBytes  = 8 << 20
	commitRetry = 200 * time.Millisecond
)

// ReaderConfig configures a Reader. Cluster, Topic and Group are required.
type ReaderConfig struct {
	Cluster Cluster
	Topic   string
	Group   string
	Queue   int          // messages fetched ahead, of up to MaxBatchBytes each; 0: 32
	OnGap   func(Gap)    // nil: the gap is only logged
	Logger  *slog.Logger // nil: slog.Default
}

// Gap is a run of messages that the broker deleted before they were read: the
// topic's retention is too short for how far the reader is behind.
type Gap struct {
	Topic     string
	Partition int
	From, To  int64 // offsets From up to, not including, To are lost
}

// Reader consumes a topic as a member of a group. Offsets are committed only
// by Commit. A group without offsets begins at the oldest message.
type Reader struct {
	reader *kafkago.Reader
	cfg    ReaderConfig
	next   map[int]int64 // partition to the offset expected next
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
	return &Reader{cfg: cfg, next: map[int]int64{}, reader: kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: cfg.Cluster.Brokers, Dialer: dialer,
		Topic: cfg.Topic, GroupID: cfg.Group, StartOffset: kafkago.FirstOffset,
		JoinGroupBackoff: joinBackoff, SessionTimeout: sessionTimeout, HeartbeatInterval: heartbeat,
		MinBytes: 1, MaxBytes: fetchBytes, MaxWait: fetchWait,
		QueueCapacity: orDefault(cfg.Queue, 32), WatchPartitionChanges: true,
		ErrorLogger: logTo(cfg.Logger),
	})}, nil
}

// Fetch waits for the next message. It does not commit. A broker that is away
// is waited for. It returns ctx's error when ctx ends, io.EOF after Close, and an
// *Error that is Permanent. Not for concurrent use.
func (r *Reader) Fetch(ctx context.Context) (Message, error) {
	for {
		m, err := r.reader.FetchMessage(ctx)
		if err == nil {
			r.noteGap(ctx, m)
			return m, nil
		}
		e := Classify(err)
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return Message{}, err // ended by the caller, or closed
		}
		if e.Class == Permanent {
			return Message{}, fmt.Errorf("read Kafka topic %s: %w", r.cfg.Topic, e)
		}
		r.cfg.Logger.Warn("kafka: fetch failed, trying again", "error", e)
		if !pause(ctx, commitRetry) {
			return Message{}, ctx.Err()
		}
	}
}

// noteGap sees whether messages are missing before m. After a rebalance
// another member may have read them, so the broker is asked whether they are
// gone.
func (r *Reader) noteGap(ctx context.Context, m Message) {
	expected, known := r.next[m.Partition]
	r.next[m.Partition] = m.Offset + 1
	if !known {
		expected = r.committed(ctx, m.Partition)
	}
	if expected < 0 || m.Offset <= expected {
		return
	}
	first, _, err := Offsets(ctx, r.cfg.Cluster, m.Topic)
	if err != nil || first[m.Partition] <= expected {
		return
	}
	gap := Gap{Topic: m.Topic, Partition: m.Partition, From: expected, To: min(m.Offset, first[m.Partition])}
	r.cfg.Logger.Error("kafka deleted messages before they were read: lengthen the topic's retention",
		"topic", gap.Topic, "partition", gap.Partition, "from", gap.From, "to", gap.To)
	if r.cfg.OnGap != nil {
		r.cfg.OnGap(gap)
	}
}

// committed is where the group was before this reader's first message of a
// partition, -1 where that cannot be told.
func (r *Reader) committed(ctx context.Context, partition int) int64 {
	offsets, err := Committed(ctx, r.cfg.Cluster, r.cfg.Group, r.cfg.Topic)
	if err != nil {
		return -1
	}
	if offset, ok := offsets[partition]; ok {
		return offset
	}
	return -1
}

// Commit tells the group that these messages, and all before them in their
// partitions, are done. It waits for the answer and tries again while the
// coordinator is starting or moving.
func (r *Reader) Commit(ctx context.Context, messages ...Message) error {
	for {
		err := r.reader.CommitMessages(ctx, messages...)
		if err == nil {
			return nil
		}
		if !coordinatorAway(err) || !pause(ctx, commitRetry) {
			return fmt.Errorf("commit Kafka offsets: %w", Classify(err))
		}
	}
}

// coordinatorAway is true for codes 14, 15 and 16, which the first calls of a
// group get until the internal topics exist.
func coordinatorAway(err error) bool {
	return errors.Is(err, kafkago.GroupLoadInProgress) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable) ||
		errors.Is(err, kafkago.NotCoordinatorForGroup)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Close leaves the group.
func (r *Reader) Close() error {
	if err := r.reader.Close(); err != nil {
		return fmt.Errorf("close the Kafka reader: %w", err)
	}
	return nil
}
