package rig

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/collector/publish"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// fillers bring requests to Kafka at once.
const fillers = 4

// Fill brings so many requests to the topic of parts as collect does, in this
// process.
func Fill(ctx context.Context, b *Broker, r *corpus.Requests, requests int) error {
	writer, err := kafka.NewWriter(kafka.WriterConfig{Cluster: b.Cluster()})
	if err != nil {
		return err
	}
	defer writer.Close()
	publisher := publish.New(writer)
	limits := extract.DefaultLimits(time.Now().UnixNano())
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range fillers {
		group.Go(func() error {
			var body []byte
			var out extract.Result
			for n := next.Add(1) - 1; n < int64(requests); n = next.Add(1) - 1 {
				body = r.Append(body[:0], uint64(n))
				if err := extract.Extract(body, limits, &out); err != nil {
					return err
				}
				if err := publisher.Publish(ctx, &out); err != nil {
					return fmt.Errorf("fill the topic: %w", err)
				}
				if len(out.Rejected) > 0 {
					return fmt.Errorf("a span is refused: %s", out.Rejected[0].Reason)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
