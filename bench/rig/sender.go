package rig

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
)

const exportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// Senders send requests over OTLP/gRPC, each on a connection of its own, one
// request at a time, as OTLP's exporters do.
type Senders struct {
	Requests *corpus.Requests
	next     atomic.Uint64 // request
	conns    []*grpc.ClientConn
}

// NewSenders connects n senders, spread over the addresses.
func NewSenders(r *corpus.Requests, n int, addrs ...string) (*Senders, error) {
	s := &Senders{Requests: r}
	for i := range n {
		conn, err := grpc.NewClient(addrs[i%len(addrs)], grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("connect sender %d: %w", i, err)
		}
		s.conns = append(s.conns, conn)
	}
	return s, nil
}

// Close ends the connections.
func (s *Senders) Close() {
	for _, c := range s.conns {
		c.Close()
	}
}

// Sent is what a run of Senders came to.
type Sent struct {
	Spans int64 // accepted
	Took  time.Duration
}

// Rate is accepted spans a second.
func (s Sent) Rate() float64 { return float64(s.Spans) / s.Took.Seconds() }

// For sends as fast as answers come, for a time.
func (s *Senders) For(ctx context.Context, d time.Duration) (Sent, error) {
	ends := time.Now().Add(d)
	return s.run(ctx, func(uint64) bool { return time.Now().Before(ends) }, nil)
}

// Count sends so many requests as fast as answers come.
func (s *Senders) Count(ctx context.Context, requests int) (Sent, error) {
	last := s.next.Load() + uint64(requests)
	return s.run(ctx, func(n uint64) bool { return n < last }, nil)
}

// Accepted is told of each request that was accepted.
type Accepted func(n uint64, at time.Time)

// Paced sends at a rate of spans a second, for a time. What can not be sent in
// time is sent late, not left out.
func (s *Senders) Paced(ctx context.Context, rate float64, d time.Duration, note Accepted) (Sent, error) {
	first, began := s.next.Load(), time.Now()
	gap := time.Duration(float64(s.Requests.Spans()) / rate * float64(time.Second))
	return s.run(ctx, func(n uint64) bool {
		due := began.Add(time.Duration(n-first) * gap)
		if due.Sub(began) >= d {
			return false
		}
		time.Sleep(time.Until(due))
		return true
	}, note)
}

// run has each sender take the next request while more says so.
func (s *Senders) run(ctx context.Context, more func(n uint64) bool, note Accepted) (Sent, error) {
	var spans atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, conn := range s.conns {
		group.Go(func() error {
			var body []byte
			for ctx.Err() == nil {
				n := s.next.Add(1) - 1
				if !more(n) {
					return nil
				}
				body = s.Requests.AppendAt(body[:0], n, time.Now())
				accepted, err := s.export(ctx, conn, body)
				if err != nil {
					return err
				}
				spans.Add(accepted)
				if note != nil {
					note(n, time.Now())
				}
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	return Sent{spans.Load(), time.Since(began)}, err
}

// export sends one request, again while the receiver says that it is full.
func (s *Senders) export(ctx context.Context, conn *grpc.ClientConn, body []byte) (int64, error) {
	for try := 0; ; try++ {
		var answer []byte
		err := conn.Invoke(ctx, exportMethod, &body, &answer)
		switch {
		case err == nil && len(answer) > 0 && refused(answer):
			return 0, errors.New("the receiver refused spans of a good request")
		case err == nil:
			return int64(s.Requests.Spans()), nil
		case ctx.Err() != nil || !retryable(err) || try == 200:
			return 0, fmt.Errorf("send a request: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// retryable are the codes with which a receiver says to wait.
func retryable(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}

// refused is true for an answer whose partial_success has a number of refused
// spans.
func refused(answer []byte) bool {
	_, _, n := protowire.ConsumeTag(answer)
	if n < 0 {
		return true
	}
	partial, m := protowire.ConsumeBytes(answer[n:])
	if m < 0 {
		return true
	}
	number, _, _ := protowire.ConsumeTag(partial)
	return len(partial) > 0 && number == 1
}

// raw is a codec for bytes that are encoded already.
type raw struct{}

var _ encoding.Codec = raw{}

// Marshal gives the bytes as they are.
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal keeps a copy.
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// Name is that of the codec whose bytes these are.
func (raw) Name() string { return "proto" }
