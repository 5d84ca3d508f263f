package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/kvwhatif/kvwhatif/internal/fault"
)

// Class and Error are those of package fault. An Error's Code is ClickHouse's.
type (
	// Class says what a caller can do about an error.
	Class = fault.Class
	// Error is an error of ClickHouse on one line, with its class.
	Error = fault.Error
)

// The two classes.
const (
	Retryable = fault.Retryable // keep the data and try again
	Permanent = fault.Permanent // say so and stop
)

// IsRetryable says whether trying again later can help. It is false for nil,
// and for the end of the caller's own context.
func IsRetryable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	return Classify(err).Class == Retryable
}

// IsUnknownUser says whether the server did not take the user or the password. A
// server that took them before may be starting, ending, or having them changed.
func IsUnknownUser(err error) bool {
	if err == nil {
		return false
	}
	return slices.Contains([]int{192, 193, 194, 516}, Classify(err).Code)
}

// Explain is Classify as an error that keeps nil.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	return Classify(err)
}

// Classify turns any error of a query into one line with its class.
func Classify(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var exception *ch.Exception
	if errors.As(err, &exception) {
		return classifyCode(int(exception.Code), exception.Message, err)
	}
	var status *ch.HTTPError
	if errors.As(err, &status) {
		return classifyStatus(status, err)
	}
	return classifyTransport(err)
}

// codes of ClickHouse's ErrorCodes.cpp that have their own advice or class.
// Codes not named are the fault of the query, and permanent.
var codes = map[int]struct {
	class  Class
	advice string
}{
	159: {Retryable, "ClickHouse took too long"},
	173: {Retryable, "ClickHouse gets no memory from its machine"},
	202: {Retryable, "ClickHouse runs too many queries at once"},
	203: {Retryable, "ClickHouse has no free connection"},
	209: {Retryable, "ClickHouse lost its socket"},
	210: {Retryable, "ClickHouse has a network error"},
	225: {Retryable, "ClickHouse cannot reach its Keeper"},
	236: {Retryable, "ClickHouse is shutting down"},
	241: {Retryable, "ClickHouse is at its memory limit: give it more, or write smaller batches"},
	242: {Retryable, "the ClickHouse table is read-only for now: see whether its Keeper is up"},
	243: {Retryable, "the disk of ClickHouse is full: free some space there"},
	252: {Retryable, "ClickHouse has too many parts and must merge first"},
	279: {Retryable, "no ClickHouse replica answers"},
	285: {Retryable, "too few ClickHouse replicas are up"},
	286: {Retryable, "ClickHouse replicas have not confirmed"},
	294: {Retryable, "ClickHouse cannot write to its disk"},
	319: {Retryable, "it is not known whether ClickHouse kept the insert"},
	394: {Retryable, "the query was killed on the ClickHouse server"},
	439: {Retryable, "ClickHouse gets no thread from its machine"},
	999: {Retryable, "ClickHouse cannot reach its Keeper"},
	// Exceptions of the libraries beneath it, such as a lock that is gone when the
	// server ends in the middle of a query: no query is at fault.
	1000: {Retryable, "ClickHouse has failed by itself, or is ending"},
	1001: {Retryable, "ClickHouse has failed by itself, or is ending"},
	1002: {Retryable, "ClickHouse has failed by itself, or is ending"},
	81:   {Permanent, "unknown ClickHouse database: create it, or correct the name in --clickhouse"},
	192:  {Permanent, "unknown ClickHouse user: correct the name in --clickhouse"},
	193:  {Permanent, "wrong ClickHouse password: correct it in --clickhouse"},
	194:  {Permanent, "ClickHouse wants a password: put it in --clickhouse as http://USER:PASSWORD@HOST:8123/DATABASE"},
	516:  {Permanent, "ClickHouse refused the user or password in --clickhouse"},
	497:  {Permanent, "the ClickHouse user may not do this: grant it, or use another user"},
	164:  {Permanent, "the ClickHouse user may only read"},
	60:   {Permanent, "unknown ClickHouse table: has the schema been applied?"},
}

// classifyCode handles an answer that has ClickHouse's own error code.
func classifyCode(code int, message string, err error) *Error {
	e := &Error{Code: code, Class: Permanent, Err: err, Text: "ClickHouse: " + shorten(message)}
	if known, ok := codes[code]; ok {
		e.Class = known.class
		e.Text = fmt.Sprintf("%s (code %d: %s)", known.advice, code, shorten(message))
	}
	if diskFull(message) {
		e.Class, e.Text = Retryable, fmt.Sprintf("the disk of ClickHouse is full: free some space there (code %d)", code)
	}
	return e
}

// diskFull knows the words of a full disk that come under codes of their own
// place, such as 74, 75 or 1001.
func diskFull(message string) bool {
	return strings.Contains(message, "No space left on device") || strings.Contains(message, "errno: 28")
}

// classifyStatus handles an answer without ClickHouse's code: of a proxy, or
// of a server that is not ClickHouse.
func classifyStatus(status *ch.HTTPError, err error) *Error {
	e := &Error{Class: Permanent, Err: err}
	switch {
	case status.StatusCode >= 500, status.StatusCode == http.StatusTooManyRequests, status.StatusCode == http.StatusRequestTimeout:
		e.Class = Retryable
		e.Text = fmt.Sprintf("ClickHouse answers HTTP %d: %s", status.StatusCode, shorten(status.Err.Error()))
	case status.StatusCode == http.StatusUnauthorized, status.StatusCode == http.StatusForbidden:
		e.Text = "ClickHouse refused the user or password in --clickhouse"
	default:
		e.Text = fmt.Sprintf("the address answers HTTP %d: is it the HTTP port of ClickHouse (8123)? %s", status.StatusCode, shorten(status.Err.Error()))
	}
	return e
}

// classifyTransport handles what never reached ClickHouse or got no answer.
func classifyTransport(err error) *Error {
	e := &Error{Class: Retryable, Err: err, Text: "ClickHouse: " + shorten(err.Error())}
	var dns *net.DNSError
	var dial *net.OpError
	switch {
	case errors.As(err, &dns):
		e.Text = fmt.Sprintf("no address for the ClickHouse host %q: correct --clickhouse, or wait for its name", dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		where := ""
		if errors.As(err, &dial) && dial.Addr != nil {
			where = " at " + dial.Addr.String()
		}
		e.Text = "ClickHouse is not running" + where + ": connection refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Text = "ClickHouse closed the connection: it has ended or is restarting"
	case errors.Is(err, context.DeadlineExceeded):
		e.Text = "ClickHouse did not answer in time"
	case strings.Contains(err.Error(), "malformed HTTP response"), strings.Contains(err.Error(), "unexpected packet"):
		e.Class = Permanent
		e.Text = "that port does not speak this protocol: http:// wants ClickHouse's HTTP port (8123), clickhouse:// its native one (9000)"
	}
	return e
}

// shorten makes one line of at most 300 bytes, without the stack and version
// that ClickHouse appends.
func shorten(s string) string {
	s, _, _ = strings.Cut(s, " (version ")
	s, _, _ = strings.Cut(s, "Stack trace")
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}
