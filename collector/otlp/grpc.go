package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	methodExport  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	typeGRPC      = "application/grpc"
	maxStreams    = 128      // requests at a time on one connection
	maxUnread     = 1 << 20  // of one connection: what waits for memory
	maxStreamed   = 64 << 10 // of one request: small, so that those that wait leave the connection to others
	maxHeaderSize = 16 << 10
	framePrefix   = 5 // of a gRPC message: compressed or not, and its length
)

// grpcServer speaks gRPC over HTTP/2 by itself, for grpc-go reads a message
// whole, whatever its size, before it asks anybody: with it, the senders and not
// the budget would bound the memory.
func (r *Receiver) grpcServer() *http.Server {
	s := r.server(http.HandlerFunc(r.serveGRPC))
	s.Protocols = new(http.Protocols)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxStreamed,
		SendPingTimeout: time.Minute, PingTimeout: 20 * time.Second,
	}
	return s
}

func (r *Receiver) serveGRPC(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodPost || !strings.HasPrefix(q.Header.Get("Content-Type"), typeGRPC) {
		http.Error(w, "OTLP over gRPC only: OTLP over HTTP has a port of its own (collect.http)", http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", typeGRPC)
	w.Header().Set("Grpc-Accept-Encoding", "gzip")
	if q.URL.Path != methodExport {
		r.endGRPC(w, unknownMethod(q.URL.Path))
		return
	}
	p, f := r.receiveGRPC(q)
	if f != nil {
		r.answered(overGRPC, f.grpc.String())
		r.endGRPC(w, f)
		return
	}
	r.answered(overGRPC, codes.OK.String())
	answer := appendResponse(make([]byte, framePrefix), p)
	binary.BigEndian.PutUint32(answer[1:], uint32(len(answer)-framePrefix))
	if _, err := w.Write(answer); err == nil {
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}
}

// unknownMethod answers what is not traces.
func unknownMethod(method string) *failure {
	if strings.HasPrefix(method, "/opentelemetry.proto.collector.") {
		return failed(kindUnknown, "kvwhatif takes traces only, not %s: send those elsewhere", method)
	}
	return failed(kindUnknown, "unknown method %s", method)
}

func (r *Receiver) receiveGRPC(q *http.Request) (partial, *failure) {
	var prefix [framePrefix]byte
	if _, err := io.ReadFull(q.Body, prefix[:]); err != nil {
		return partial{}, unread(q, readFailure(err))
	}
	length := int64(binary.BigEndian.Uint32(prefix[1:]))
	if length > int64(r.cfg.MaxRequestBytes) {
		return partial{}, r.tooLarge(length)
	}
	encoding := ""
	if prefix[0] != 0 {
		encoding = q.Header.Get("Grpc-Encoding")
	}
	p, f := r.receive(q.Context(), body{&message{q.Body, length}, length, encoding, false})
	return p, unread(q, f)
}

// unread corrects a failure to read for a sender that went away.
func unread(q *http.Request, f *failure) *failure {
	if f != nil && f.kind == kindInvalid && q.Context().Err() != nil {
		return failed(kindCanceled, "%v", q.Context().Err())
	}
	return f
}

// message reads a gRPC message of known length, and then that nothing follows,
// for a unary call has one.
type message struct {
	io.Reader
	left int64
}

var errSecondMessage = errors.New("a second message follows")

func (m *message) Read(b []byte) (int, error) {
	if m.left == 0 {
		var one [1]byte
		n, err := m.Reader.Read(one[:])
		if n > 0 {
			err = errSecondMessage
		}
		return 0, err
	}
	n, err := m.Reader.Read(b[:min(int64(len(b)), m.left)])
	m.left -= int64(n)
	if err == io.EOF && m.left > 0 {
		err = io.ErrUnexpectedEOF
	} else if m.left == 0 {
		err = nil // the next Read tells
	}
	return n, err
}

// endGRPC answers with a status, and the delay where the sender should wait.
func (r *Receiver) endGRPC(w http.ResponseWriter, f *failure) {
	s := status.New(f.grpc, f.text)
	if f.retry {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.cfg.RetryAfter)}); err == nil {
			s = detailed
			if details, err := proto.Marshal(s.Proto()); err == nil {
				w.Header().Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
			}
		}
	}
	w.Header().Set("Grpc-Status", strconv.Itoa(int(f.grpc)))
	w.Header().Set("Grpc-Message", percentEncoded(f.text))
}

// percentEncoded writes a status message as gRPC has it in a header.
func percentEncoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// server has the limits that both protocols share.
func (r *Receiver) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: r.cfg.ReadTimeout,
		ReadTimeout:       r.cfg.ReadTimeout,
		WriteTimeout:      r.cfg.ReadTimeout + time.Minute + 30*time.Second, // Kafka may take a minute
		IdleTimeout:       r.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderSize,
		ErrorLog:          slog.NewLogLogger(r.logger.Handler(), slog.LevelDebug),
	}
}
