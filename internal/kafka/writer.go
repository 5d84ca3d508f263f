package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"golang.org/x/sync/semaphore"
)

// Defaults of WriterConfig, and what is not configured.
const (
	defaultInFlight     = 64 << 20
	defaultBatchTimeout = 5 * time.Millisecond
	defaultRoomWait     = time.Second
	// MaxBatchBytes is the largest batch sent to a partition, below the
	// 1,048,588 bytes that a broker takes by default. A message may be no
	// larger either.
	MaxBatchBytes = 1_000_000
	writeAttempts = 5
	writeTimeout  = 10 * time.Second
	// produceLimit ends a call whose caller set no deadline, when no broker
	// answers at all.
	produceLimit = 60 * time.Second
)

// WriterConfig configures a Writer. Only Cluster is required.
type WriterConfig struct {
	Cluster      Cluster
	MaxInFlight  int64         // bytes not yet acknowledged, all calls together; 0: 64 MiB
	RoomWait     time.Duration // how long a call waits for room in flight before ErrBusy; 0: 1 s
	BatchTimeout time.Duration // how long messages wait for others to share a request; 0: 5 ms
	Compression  string        // none, gzip, snappy, lz4 or zstd; empty: none
	Logger       *slog.Logger  // nil: slog.Default
}

// Writer produces to Kafka. It is safe for concurrent use: calls share
// requests.
type Writer struct {
	writer    *kafkago.Writer
	transport *kafkago.Transport
	room      *semaphore.Weighted
	max       int64
	roomWait  time.Duration
	calls     sync.WaitGroup
}

// NewWriter makes a writer that waits for all in-sync replicas. It does not
// connect yet.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	transport, err := cfg.Cluster.transport()
	if err != nil {
		return nil, fmt.Errorf("make the Kafka writer: %w", err)
	}
	compression, err := compressionOf(cfg.Compression)
	if err != nil {
		return nil, fmt.Errorf("make the Kafka writer: %w", err)
	}
	w := &Writer{transport: transport, max: orDefault(cfg.MaxInFlight, defaultInFlight), roomWait: orDefault(cfg.RoomWait, defaultRoomWait)}
	w.room = semaphore.NewWeighted(w.max)
	w.writer = &kafkago.Writer{
		Addr:         cfg.Cluster.addr(),
		Transport:    transport,
		RequiredAcks: kafkago.RequireAll,
		Balancer:     &kafkago.RoundRobin{},
		BatchBytes:   MaxBatchBytes,
		BatchTimeout: orDefault(cfg.BatchTimeout, defaultBatchTimeout),
		MaxAttempts:  writeAttempts,
		ReadTimeout:  writeTimeout,
		WriteTimeout: writeTimeout,
		Compression:  compression,
		ErrorLogger:  logTo(cfg.Logger),
	}
	return w, nil
}

// Produce sends messages without keys, spread over the topic's partitions, and
// returns nil only when each is acknowledged by all in-sync replicas. After an
// error any of them may or may not be in Kafka: send all again. The error is
// an *Error; it wraps ErrBusy where there was no room in flight.
//
// When ctx ends first, what was handed over still counts as in flight until
// Kafka has answered for it.
func (w *Writer) Produce(ctx context.Context, topic string, messages ...Message) error {
	size, err := check(topic, messages)
	if err != nil {
		return err
	}
	size = min(size, w.max)
	if err := w.reserve(ctx, size); err != nil {
		return err
	}
	done := make(chan error, 1)
	w.calls.Add(1)
	go func() {
		defer w.calls.Done()
		defer w.room.Release(size)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), produceLimit)
		defer cancel()
		done <- w.writer.WriteMessages(limit, messages...)
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return forSender(Classify(err))
	}
	return nil
}

// forSender has a sender wait for what an administrator of Kafka can mend: told that
// it is permanent, it would throw away what it has. What is wrong with the messages
// themselves stays permanent.
func forSender(e *Error) *Error {
	switch kafkago.Error(e.Code) {
	case kafkago.TopicAuthorizationFailed, kafkago.ClusterAuthorizationFailed, kafkago.SASLAuthenticationFailed,
		kafkago.PolicyViolation, kafkago.InvalidRequiredAcks, kafkago.UnsupportedCompressionType, kafkago.UnsupportedForMessageFormat:
		return &Error{Class: Retryable, Code: e.Code, Text: e.Text, Err: e.Err}
	}
	return e
}

// check sets the topic and sums the bytes.
func check(topic string, messages []Message) (int64, error) {
	size := int64(0)
	for i := range messages {
		messages[i].Topic = topic
		n := sizeOf(messages[i])
		if n > MaxBatchBytes {
			return 0, &Error{Class: Permanent, Err: kafkago.MessageSizeTooLarge,
				Text: fmt.Sprintf("Kafka: a message of %d bytes is larger than the %d allowed", n, MaxBatchBytes)}
		}
		size += n
	}
	return size, nil
}

// sizeOf is at least what the client library counts: the fields and some 32
// bytes of framing.
func sizeOf(m Message) int64 {
	size := 64 + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += 16 + len(h.Key) + len(h.Value)
	}
	return int64(size)
}

// reserve waits a moment for room in flight.
func (w *Writer) reserve(ctx context.Context, size int64) error {
	wait, cancel := context.WithTimeout(ctx, w.roomWait)
	defer cancel()
	if err := w.room.Acquire(wait, size); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			err = context.Canceled
		}
		return &Error{Class: Retryable, Err: errors.Join(ErrBusy, err),
			Text: fmt.Sprintf("%v: %d bytes in flight is the bound; wait and send again", ErrBusy, w.max)}
	}
	return nil
}

// Close waits until Kafka has answered for what is in flight.
func (w *Writer) Close() error {
	w.calls.Wait()
	err := w.writer.Close()
	w.transport.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("close the Kafka writer: %w", err)
	}
	return nil
}

func compressionOf(name string) (kafkago.Compression, error) {
	if name == "" || name == "none" {
		return 0, nil
	}
	var c kafkago.Compression
	if err := c.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("Kafka compression %q is not one of none, gzip, snappy, lz4, zstd", name)
	}
	return c, nil
}

func orDefault[T int | int64 | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

// logTo passes what the client library reports on; it has no levels. What was
// under way at a Close is no news.
func logTo(logger *slog.Logger) kafkago.Logger {
	q := newQuiet(logger, "kafka client: ")
	return kafkago.LoggerFunc(func(format string, args ...any) {
		for _, arg := range args {
			if err, ok := arg.(error); ok && errors.Is(err, context.Canceled) {
				return
			}
		}
		q.log(slog.LevelWarn, format, args...)
	})
}
