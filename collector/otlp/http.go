package otlp

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	pathTraces   = "/v1/traces"
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"

	// maxPooled is the largest buffer kept for the next request.
	maxPooled = 1 << 20
)

var (
	bodies  = sync.Pool{New: func() any { return new([]byte) }}
	gunzips = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

func (r *Receiver) httpServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathTraces, r.exportHTTP)
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/v1/") && q.URL.Path != pathTraces {
			http.Error(w, "kvwhatif takes traces only, at "+pathTraces+": send metrics and logs elsewhere", http.StatusNotFound)
			return
		}
		http.Error(w, "OTLP over HTTP is at "+pathTraces, http.StatusNotFound)
	})
	mux.HandleFunc(pathTraces, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
	})
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: r.cfg.ReadTimeout,
		ReadTimeout:       r.cfg.ReadTimeout,
		WriteTimeout:      r.cfg.ReadTimeout + time.Minute + 30*time.Second, // Kafka may take a minute
		IdleTimeout:       r.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderSize,
		ErrorLog:          slog.NewLogLogger(r.logger.Handler(), slog.LevelDebug),
	}
}

func (r *Receiver) exportHTTP(w http.ResponseWriter, q *http.Request) {
	media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if err != nil || (media != typeProtobuf && media != typeJSON) {
		r.answered(overHTTP, strconv.Itoa(http.StatusUnsupportedMediaType))
		http.Error(w, "Content-Type must be "+typeProtobuf+" or "+typeJSON, http.StatusUnsupportedMediaType)
		return
	}
	p, f := r.receiveHTTP(w, q, media == typeJSON)
	if f != nil {
		r.refuseHTTP(w, media, f)
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

func (r *Receiver) refuseHTTP(w http.ResponseWriter, media string, f *failure) {
	r.answered(overHTTP, strconv.Itoa(f.http))
	w.Header().Set("Content-Type", media)
	if f.retry {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(r.cfg.RetryAfter.Seconds()))))
	}
	w.WriteHeader(f.http)
	if media == typeJSON {
		_ = json.NewEncoder(w).Encode(map[string]any{"code": int(f.grpc), "message": f.text})
		return
	}
	_, _ = w.Write(appendStatus(nil, f))
}

func (r *Receiver) receiveHTTP(w http.ResponseWriter, q *http.Request, isJSON bool) (partial, *failure) {
	h := hold{budget: r.budget}
	defer h.release()
	if q.ContentLength > int64(r.cfg.MaxRequestBytes) {
		return partial{}, failed(kindTooLarge, "the request has %d bytes, more than %d (collect.max_request_bytes): send smaller batches", q.ContentLength, r.cfg.MaxRequestBytes)
	}
	buf := bodies.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxPooled {
			bodies.Put(buf)
		}
	}()
	if f := h.reserve(q.Context(), int64(max(cap(*buf), int(q.ContentLength)))); f != nil {
		return partial{}, f
	}
	reader, done, f := decompressed(q, http.MaxBytesReader(w, q.Body, int64(r.cfg.MaxRequestBytes)))
	if f != nil {
		return partial{}, f
	}
	defer done()
	if *buf, f = h.readAll(q.Context(), reader, *buf, r.cfg.MaxRequestBytes); f != nil {
		return partial{}, f
	}
	body, factor := *buf, withParts
	if isJSON {
		factor = jsonFactor
	}
	if f := h.reserve(q.Context(), int64(factor*len(body))); f != nil {
		return partial{}, f
	}
	if isJSON {
		if body, f = fromJSON(body); f != nil {
			return partial{}, f
		}
	}
	return r.export(q.Context(), body)
}

// decompressed reads body as its Content-Encoding says.
func decompressed(q *http.Request, body io.Reader) (io.Reader, func(), *failure) {
	switch encoding := strings.ToLower(q.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return body, func() {}, nil
	case "gzip":
		z := gunzips.Get().(*gzip.Reader)
		if err := z.Reset(body); err != nil {
			gunzips.Put(z)
			return nil, nil, readFailure(err)
		}
		return z, func() { gunzips.Put(z) }, nil
	default:
		return nil, nil, failed(kindMedia, "Content-Encoding %q is not supported: use gzip or none", encoding)
	}
}
