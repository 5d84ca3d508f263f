package otlp

import (
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	pathTraces   = "/v1/traces"
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
)

func (r *Receiver) httpServer() *http.Server {
	s := r.server(http.HandlerFunc(r.serveHTTP))
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// server has the limits that both protocols share.
func (r *Receiver) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           atWork(h),
		TLSConfig:         r.cfg.TLS.Clone(), // a server changes its own; nil stays nil
		ConnContext:       ofConnection,
		ReadHeaderTimeout: min(grace, r.cfg.ReadTimeout),
		ReadTimeout:       r.cfg.ReadTimeout,
		WriteTimeout:      r.cfg.ReadTimeout + time.Minute + 30*time.Second, // Kafka may take a minute
		IdleTimeout:       r.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderSize,
		ErrorLog:          slog.NewLogLogger(r.logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxStreamed,
			SendPingTimeout: time.Minute, PingTimeout: 20 * time.Second,
		},
	}
}

// allow refuses who shows none of the tokens.
func (r *Receiver) allow(q *http.Request) *failure {
	if r.cfg.Tokens.Allow(q.Header.Get("Authorization")) {
		return nil
	}
	return failed(kindNobody, "send `Authorization: Bearer TOKEN` with a token that this collector takes")
}

// serveHTTP answers what comes over HTTP.
func (r *Receiver) serveHTTP(w http.ResponseWriter, q *http.Request) {
	f := r.allow(q)
	media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	switch {
	case f != nil:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case q.URL.Path != pathTraces && strings.HasPrefix(q.URL.Path, "/v1"):
		f = failed(kindUnknown, "kvwhatif takes traces only, at "+pathTraces+": send metrics, logs and profiles elsewhere")
	case q.URL.Path != pathTraces:
		f = failed(kindUnknown, "OTLP over HTTP is at "+pathTraces)
	case q.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		f = failed(kindMethod, "use POST")
	case err != nil || (media != typeProtobuf && media != typeJSON):
		f = failed(kindMedia, "Content-Type must be "+typeProtobuf+" or "+typeJSON)
	default:
		r.exportHTTP(w, q, media)
		return
	}
	r.refuseHTTP(w, q, f)
}

func (r *Receiver) exportHTTP(w http.ResponseWriter, q *http.Request, media string) {
	p, f := r.receiveHTTP(w, q, media == typeJSON)
	if f != nil {
		r.refuseHTTP(w, q, f)
		return
	}
	r.answered(overHTTP, strconv.Itoa(http.StatusOK))
	w.Header().Set("Content-Type", media)
	if media == typeJSON {
		_ = json.NewEncoder(w).Encode(jsonResponse(p))
		return
	}
	_, _ = w.Write(appendResponse(nil, p))
}

// refuseHTTP answers with a google.rpc.Status: in protobuf to who sent that, and as
// JSON to everybody else, who can read it.
func (r *Receiver) refuseHTTP(w http.ResponseWriter, q *http.Request, f *failure) {
	r.answered(overHTTP, strconv.Itoa(f.http))
	if f.retry {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(r.cfg.RetryAfter.Seconds()))))
	}
	s := f.status(r.cfg.RetryAfter).Proto()
	media, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	encode := protojson.Marshal
	if media == typeProtobuf {
		encode = proto.Marshal
	} else {
		media = typeJSON
	}
	body, err := encode(s)
	if err != nil {
		r.logger.Error("encode an OTLP status", "error", err)
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(f.http)
	_, _ = w.Write(body)
}

func (r *Receiver) receiveHTTP(w http.ResponseWriter, q *http.Request, isJSON bool) (partial, *failure) {
	in := r.comes(w, q)
	defer in.end()
	p, f := r.boundedHTTP(q, in, isJSON)
	if f != nil && f.kind == kindTooLarge {
		in.discard(q)
	}
	return p, f
}

func (r *Receiver) boundedHTTP(q *http.Request, in *incoming, isJSON bool) (partial, *failure) {
	most := int64(r.cfg.MaxRequestBytes)
	if q.ContentLength > most {
		return partial{}, r.tooLarge(q.ContentLength)
	}
	h := &hold{budget: r.budget, from: in}
	defer h.release()
	limited := http.MaxBytesReader(nil, io.NopCloser(in), most)
	return r.receive(q.Context(), h, body{limited, max(0, q.ContentLength), q.Header.Get("Content-Encoding"), isJSON})
}
