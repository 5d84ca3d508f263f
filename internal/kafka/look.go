package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

const (
	// lookTimeout bounds one look: messages wait for it.
	lookTimeout = 2 * time.Second
	// rewindTimeout bounds the commit of a rewind, which may have to wait for the group.
	rewindTimeout = 10 * time.Second
)

// noteGap sees whether messages are missing before m. After a rebalance
// another member may have read them, so the group is asked how far it had come, and
// the broker whether they are gone.
func (r *Reader) noteGap(ctx context.Context, m Message) {
	expected, known := r.next[m.Partition]
	r.next[m.Partition] = m.Offset + 1
	if known && m.Offset <= expected {
		return
	}
	if offsets, err := Committed(ctx, r.cfg.Cluster, r.cfg.Group, r.cfg.Topic); err == nil {
		if committed, ok := offsets[m.Partition]; ok && (!known || committed > expected) {
			expected, known = committed, true
		}
	}
	if !known || expected < 0 || m.Offset <= expected {
		return
	}
	first, _, err := Offsets(ctx, r.cfg.Cluster, m.Topic)
	if err != nil || first[m.Partition] <= expected {
		return
	}
	gap := Gap{Topic: m.Topic, Partition: m.Partition, From: expected, To: min(m.Offset, first[m.Partition])}
	r.metrics.lost.Add(float64(gap.To - gap.From))
	r.cfg.Logger.Error("kafka deleted messages before they were read: lengthen the topic's retention",
		"topic", gap.Topic, "partition", gap.Partition, "from", gap.From, "to", gap.To)
	if r.cfg.OnGap != nil {
		r.cfg.OnGap(gap)
	}
}

// lookAround sees what the library does not tell of: a topic that was deleted, and
// one that ends before where the group has come to. There the library waits for ever.
func (r *Reader) lookAround(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	committed, _ := Committed(ctx, r.cfg.Cluster, r.cfg.Group, r.cfg.Topic) // before the ends, which grow
	first, last, err := Offsets(ctx, r.cfg.Cluster, r.cfg.Topic)
	cancel()
	if errors.Is(err, kafkago.UnknownTopicOrPartition) {
		r.metrics.missing.Set(1)
		r.cfg.Logger.Error("kafka topic is not there, and nothing is read: make it again, which the start of any stage does; "+
			"what it held and was not yet read is lost", "topic", r.cfg.Topic, "group", r.cfg.Group)
		return
	}
	if err != nil {
		return // a broker is away, which the fetch tells of
	}
	r.metrics.missing.Set(0)
	var back []Message
	for _, partition := range slices.Sorted(maps.Keys(last)) {
		at := max(committed[partition], r.next[partition])
		if at <= last[partition] {
			continue
		}
		r.cfg.Logger.Error("kafka topic ends before what was read of it: it was made anew, or lost messages that it had acknowledged. "+
			"It is read from its oldest message on; what comes again counts once. Look for an unclean leader election, or for who deleted the topic",
			"topic", r.cfg.Topic, "group", r.cfg.Group, "partition", partition, "read_to", at, "end", last[partition], "oldest", first[partition])
		back = append(back, Message{Topic: r.cfg.Topic, Partition: partition, Offset: first[partition] - 1})
	}
	if len(back) > 0 {
		r.rewind(back)
	}
}

// rewind has the group go on after the messages given, which lie before where it
// is, and joins it anew, for the library reads on from where it was.
func (r *Reader) rewind(to []Message) {
	// Not the caller's context: a rewind that is half done would be done again.
	ctx, cancel := context.WithTimeout(context.Background(), rewindTimeout)
	defer cancel()
	if err := r.commit(ctx, to...); err != nil {
		r.cfg.Logger.Warn("kafka: the group could not be set back, trying again", "topic", r.cfg.Topic, "group", r.cfg.Group, "error", err)
		return
	}
	r.metrics.rewinds.Add(float64(len(to)))
	for _, m := range to {
		delete(r.next, m.Partition)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if err := r.reader.Close(); err != nil {
		r.cfg.Logger.Warn("kafka: leave the group", "error", err)
	}
	r.reader = r.join()
}
