package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// follower reads a topic of parts from where it ended when the follower was made,
// up to offsets that it is given. It is in no group: a run in lockstep draws again
// from the beginning after a crash.
type follower struct {
	cluster kafka.Cluster
	topic   string
	readers map[int]*kafka.PartitionReader
	next    map[int]int64 // by partition, the offset that comes next
	decoder wire.Decoder
}

func newFollower(ctx context.Context, cluster kafka.Cluster, topic string) (*follower, error) {
	ends, err := kafka.EndOffsets(ctx, cluster, topic)
	if err != nil {
		return nil, err
	}
	f := &follower{cluster: cluster, topic: topic, readers: map[int]*kafka.PartitionReader{}, next: ends}
	for partition, offset := range ends {
		if f.readers[partition], err = kafka.NewPartitionReader(cluster, topic, partition, offset); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

// more gives the parts of everything that Kafka has accepted so far. Frames that
// can not be read are load's to dead-letter.
func (f *follower) more(ctx context.Context) ([]*schema.Part, error) {
	ends, err := kafka.EndOffsets(ctx, f.cluster, f.topic)
	if err != nil {
		return nil, err
	}
	var parts []*schema.Part
	for partition, end := range ends {
		for f.next[partition] < end {
			m, err := f.readers[partition].Read(ctx)
			if err != nil {
				return nil, fmt.Errorf("read decisions: %w", err)
			}
			f.next[partition] = m.Offset + 1
			parts = f.decode(parts, m.Value)
		}
	}
	return parts, nil
}

func (f *follower) decode(into []*schema.Part, message []byte) []*schema.Part {
	for frame, err := range wire.Frames(message) {
		p := new(schema.Part)
		if err == nil && f.decoder.Part(frame, p) == nil {
			into = append(into, p)
		}
	}
	return into
}

func (f *follower) close() error {
	var errs []error
	for _, r := range f.readers {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}
