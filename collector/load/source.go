package load

import (
	"context"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// Source gives the messages of a consumer group; *kafka.Reader is one.
type Source interface {
	// Fetch waits for the next message.
	Fetch(ctx context.Context) (kafka.Message, error)
	// Commit says that the group needs these messages, and those before them in
	// their partitions, no more. They may come without their values.
	Commit(ctx context.Context, messages ...kafka.Message) error
}

// Producer writes dead letters; *kafka.Writer is one. It returns nil only when
// they are safe.
type Producer interface {
	Produce(ctx context.Context, topic string, messages ...kafka.Message) error
}
