package otlp

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

const (
	pathTraces   = "/v1/traces"
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
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
	return r.server(mux)
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
	if q.ContentLength > int64(r.cfg.MaxRequestBytes) {
		return partial{}, r.tooLarge(q.ContentLength)
	}
	limited := http.MaxBytesReader(w, q.Body, int64(r.cfg.MaxRequestBytes))
	return r.receive(q.Context(), body{limited, max(0, q.ContentLength), q.Header.Get("Content-Encoding"), isJSON})
}
