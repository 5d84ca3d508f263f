package e2e

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kvwhatif/kvwhatif/e2e/otlptest"
)

const (
	batchSpans  = 50
	senders     = 4
	exportLimit = 30 * time.Second
	retryPause  = 20 * time.Millisecond
)

// sender sends batches of contract spans over OTLP/gRPC, each until it is
// accepted, and knows what became of each.
type sender struct {
	base     time.Time
	client   coltrace.TraceServiceClient
	accepted atomic.Int64 // batches

	mu       sync.Mutex
	failures map[codes.Code]string // one message of each code
}

// dial connects to an OTLP/gRPC address, and again soon after each loss.
func dial(t *testing.T, addr string) coltrace.TraceServiceClient {
	t.Helper()
	quick := backoff.Config{BaseDelay: retryPause, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return coltrace.NewTraceServiceClient(conn)
}

// newSender sends to addr. Its spans end before now.
func newSender(t *testing.T, addr string, spans int) *sender {
	return &sender{
		client: dial(t, addr), base: time.Now().Add(-time.Hour - time.Duration(spans)*50*time.Millisecond).Truncate(time.Minute),
		failures: map[codes.Code]string{},
	}
}

// send sends the requests from first up to, not including, end.
func (s *sender) send(ctx context.Context, first, end int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	for at := first; at < end && ctx.Err() == nil; at += batchSpans {
		group.Go(func() error { return s.batch(ctx, at, min(at+batchSpans, end)) })
	}
	return group.Wait()
}

func (s *sender) batch(ctx context.Context, first, end int) error {
	var spans []*trace.Span
	for n := first; n < end; n++ {
		spans = append(spans, otlptest.Contract(contract(n, s.base)))
	}
	request := requestOf(spans...)
	for {
		answer, err := s.export(ctx, request)
		switch {
		case err == nil && answer.GetPartialSuccess().GetRejectedSpans() > 0:
			return status.Error(codes.InvalidArgument, answer.GetPartialSuccess().GetErrorMessage())
		case err == nil:
			s.accepted.Add(1)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !retryable(err):
			return err
		}
		s.note(err)
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

func (s *sender) export(ctx context.Context, r *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, exportLimit)
	defer cancel()
	return s.client.Export(ctx, r)
}

// retryable are the codes on which OTLP has a sender try again.
func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

func (s *sender) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[status.Code(err)] = status.Convert(err).Message()
}

// failed says whether some export was answered with code.
func (s *sender) failed(code codes.Code) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	message, ok := s.failures[code]
	return message, ok
}
