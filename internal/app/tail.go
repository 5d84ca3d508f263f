package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/collector/load"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// TailOptions says what tail prints.
type TailOptions struct {
	Beginning bool // from the oldest message
	Limit     int  // lines; 0: no limit
	JSON      bool
	Out       io.Writer
}

// remembered gives the state of a directory that another process may be using;
// it takes no lock.
func remembered(dir string) (State, error) {
	var s State
	path := filepath.Join(dir, stateFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("no kvwhatif ran in %s: give --dir of a running `kvwhatif up`, or name the servers", dir)
	}
	if err != nil {
		return s, fmt.Errorf("read state of %s: %w", dir, err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("state %s is damaged: %w", path, err)
	}
	return s, nil
}

// Tail prints parts as they come, without joining a group: it disturbs nobody.
func Tail(ctx context.Context, s *Settings, log *slog.Logger, o TailOptions) error {
	cluster := s.Kafka
	if len(cluster.Brokers) == 0 {
		state, err := remembered(s.Dir)
		if err != nil {
			return err
		}
		cluster = kafka.Brokers(state.KafkaAddr)
	}
	first, last, err := kafka.Offsets(ctx, cluster, schema.TopicParts)
	if err != nil {
		return err
	}
	from := last
	if o.Beginning {
		from = first
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	messages := make(chan kafka.Message)
	for partition, offset := range from {
		group.Go(func() error { return follow(ctx, cluster, partition, offset, messages) })
	}
	group.Go(func() error {
		defer cancel()
		return printParts(ctx, messages, o, log)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// follow reads one partition from an offset on.
func follow(ctx context.Context, c kafka.Cluster, partition int, offset int64, out chan<- kafka.Message) error {
	r, err := kafka.NewPartitionReader(c, schema.TopicParts, partition, offset)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		m, err := r.Read(ctx)
		if err != nil {
			return err
		}
		select {
		case out <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func printParts(ctx context.Context, messages <-chan kafka.Message, o TailOptions, log *slog.Logger) error {
	var decoder wire.Decoder
	for lines := 0; ; {
		var m kafka.Message
		select {
		case m = <-messages:
		case <-ctx.Done():
			return ctx.Err()
		}
		for frame, err := range wire.Frames(m.Value) {
			var p schema.Part
			if err == nil {
				err = decoder.Part(frame, &p)
			}
			if err != nil {
				log.Warn("a part can not be read", "partition", m.Partition, "offset", m.Offset, "error", err)
				continue
			}
			if err := printPart(o, &p); err != nil {
				return err
			}
			if lines++; lines == o.Limit {
				return nil
			}
		}
	}
}

func printPart(o TailOptions, p *schema.Part) error {
	if !o.JSON {
		_, err := fmt.Fprintln(o.Out, load.Line(p))
		return err
	}
	return json.NewEncoder(o.Out).Encode(tailJSON(p))
}

// tailLine is a part for machines: identifiers as text, what is missing left out.
type tailLine struct {
	Trace      string   `json:"trace"`
	Span       string   `json:"span"`
	Kind       string   `json:"kind"`
	Service    string   `json:"service,omitempty"`
	RequestID  string   `json:"request_id,omitempty"`
	StartNanos int64    `json:"start_unix_nanos"`
	EndNanos   int64    `json:"end_unix_nanos"`
	Policy     string   `json:"policy,omitempty"`
	Path       string   `json:"path,omitempty"`
	Model      string   `json:"model,omitempty"`
	Worker     string   `json:"worker,omitempty"`
	Link       string   `json:"link,omitempty"`
	Bytes      *int64   `json:"bytes,omitempty"`
	TTFT       *float64 `json:"ttft_seconds,omitempty"`
	Leg        string   `json:"leg,omitempty"`
}

func tailJSON(p *schema.Part) tailLine {
	kinds := map[schema.Kind]string{
		schema.KindContract: "contract", schema.KindEngine: "engine", schema.KindTransfer: "transfer", schema.KindReplay: "replay",
	}
	out := tailLine{
		Trace: p.Trace.String(), Span: p.Span.String(), Kind: kinds[p.Kind], Service: p.Service, RequestID: p.RequestID,
		StartNanos: p.StartNanos, EndNanos: p.EndNanos, Policy: p.Decision.Policy, Path: p.Decision.Path.String(),
		Model: p.Decision.Model, Worker: p.Decision.Worker, Link: p.Decision.Link, Leg: p.Replay.Leg.String(),
	}
	if p.Kind == schema.KindReplay {
		out.Path = p.Replay.Path.String()
	}
	if p.Observed.Bytes.OK {
		out.Bytes = &p.Observed.Bytes.V
	}
	if p.Observed.TTFT.OK {
		out.TTFT = &p.Observed.TTFT.V
	}
	return out
}
