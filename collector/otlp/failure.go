package otlp

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// kind is a class of answer to a request that is not accepted, and what each
// protocol calls it. By OTLP's rules a sender tries again on CANCELLED,
// DEADLINE_EXCEEDED, UNAVAILABLE and some more of gRPC, and on 429, 502, 503 and
// 504 of HTTP.
type kind struct {
	grpc  codes.Code
	http  int
	retry bool
}

var (
	kindNobody   = kind{codes.Unauthenticated, http.StatusUnauthorized, false}
	kindMethod   = kind{codes.Unimplemented, http.StatusMethodNotAllowed, false}
	kindInvalid  = kind{codes.InvalidArgument, http.StatusBadRequest, false}
	kindTooLarge = kind{codes.ResourceExhausted, http.StatusRequestEntityTooLarge, false}
	kindMedia    = kind{codes.Unimplemented, http.StatusUnsupportedMediaType, false}
	kindUnknown  = kind{codes.Unimplemented, http.StatusNotFound, false}
	kindLater    = kind{codes.Unavailable, http.StatusServiceUnavailable, true}
	kindSlow     = kind{codes.DeadlineExceeded, http.StatusRequestTimeout, false}
	kindCanceled = kind{codes.Canceled, 499, false} // the sender went away
	kindInternal = kind{codes.Internal, http.StatusInternalServerError, false}
)

// failure is why a request is not accepted.
type failure struct {
	kind
	text string
}

func failed(k kind, format string, args ...any) *failure {
	// Protobuf has UTF-8 only, and what was sent may be quoted.
	return &failure{k, strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")}
}

// readFailure classifies an error of reading a body.
func readFailure(err error) *failure {
	var timeout net.Error
	var corrupt flate.CorruptInputError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return failed(kindTooLarge, "the request has more than %d bytes (collect.max_request_bytes): send smaller batches", large.Limit)
	case errors.Is(err, errDropped):
		return failed(kindLater, "%v: send again", err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return failed(kindSlow, "the request came more slowly than %d bytes/s, or took longer than collect.read_timeout", minRate)
	case errors.As(err, &corrupt), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return failed(kindInvalid, "the body is no gzip: %v", err)
	}
	if errors.Is(err, errSecondMessage) {
		return failed(kindInvalid, "%v", err)
	}
	return failed(kindInvalid, "the body ended early: %v", err)
}

// unsent classifies an error of a Publisher.
func unsent(ctx context.Context, err error) *failure {
	switch {
	case ctx.Err() != nil:
		return failed(kindCanceled, "the sender went away before Kafka answered: %v", err)
	case kafka.IsRetryable(err):
		return failed(kindLater, "%v", err)
	}
	return failed(kindInternal, "%v", err)
}
