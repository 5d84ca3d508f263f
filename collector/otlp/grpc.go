package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const (
	methodExport  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	typeGRPC      = "application/grpc"
	maxStreams    = 128       // requests at a time on one connection
	maxUnread     = 256 << 10 // of one connection: what waits for memory
	maxStreamed   = 64 << 10  // of one request: small, so that those that wait leave the connection to others
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
	s.Protocols.SetHTTP2(true)
	return s
}

func (r *Receiver) serveGRPC(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodPost || !strings.HasPrefix(q.Header.Get("Content-Type"), typeGRPC) {
		r.refuseHTTP(w, q, failed(kindMedia, "OTLP over gRPC only: OTLP over HTTP has a port of its own (collect.http)"))
		return
	}
	w.Header().Set("Content-Type", typeGRPC)
	w.Header().Set("Grpc-Accept-Encoding", "gzip")
	p, f := r.callGRPC(w, q)
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

// callGRPC answers one call.
func (r *Receiver) callGRPC(w http.ResponseWriter, q *http.Request) (partial, *failure) {
	if f := r.allow(q); f != nil {
		return partial{}, f
	}
	if q.URL.Path != methodExport {
		return partial{}, unknownMethod(q.URL.Path)
	}
	in := r.comes(w, q)
	defer in.end()
	h := &hold{budget: r.budget, from: in}
	defer h.release()
	if f := h.reserve(q.Context(), withParts*tiny); f != nil {
		return partial{}, f
	}
	p, f := r.receiveGRPC(q, in, h)
	return p, unread(q, f)
}

func (r *Receiver) receiveGRPC(q *http.Request, in *incoming, h *hold) (partial, *failure) {
	var prefix [framePrefix]byte
	if _, err := io.ReadFull(in, prefix[:]); err != nil {
		return partial{}, readFailure(err)
	}
	length := int64(binary.BigEndian.Uint32(prefix[1:]))
	if length > int64(r.cfg.MaxRequestBytes) {
		return partial{}, r.tooLarge(length)
	}
	encoding := ""
	if prefix[0] != 0 {
		encoding = q.Header.Get("Grpc-Encoding")
	}
	return r.receive(q.Context(), h, body{&message{in, length}, length, encoding, false})
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
	s := f.status(r.cfg.RetryAfter)
	if len(s.Proto().Details) > 0 {
		if details, err := proto.Marshal(s.Proto()); err == nil {
			w.Header().Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
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
