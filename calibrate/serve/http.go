package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

const (
	defaultHistory = 100
	maxHistory     = 1000
	storeTimeout   = 5 * time.Second // of a request that reads the store
)

// methods of each path, for who takes a wrong one.
var methods = map[string]string{
	"/v1/coefficients": "GET, HEAD", "/v1/history": "GET, HEAD", "/v1/events": "GET", "/v1/status": "GET, HEAD, POST",
	"/v1/keys": "GET, HEAD", "/healthz": "GET, HEAD",
}

// Handler answers for the server. An http.Server in front of it must not have a
// WriteTimeout below MaxWait, unless its ResponseWriter lets deadlines be moved.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/coefficients", s.getNewest)
	mux.HandleFunc("GET /v1/coefficients/{revision}", s.getRevision)
	mux.HandleFunc("GET /v1/history", s.getHistory)
	mux.HandleFunc("GET /v1/events", s.getEvents)
	mux.HandleFunc("POST /v1/status", s.postStatus)
	mux.HandleFunc("GET /v1/status", s.getStatus)
	mux.HandleFunc("GET /v1/keys", s.getKeys)
	mux.HandleFunc("GET /healthz", s.getHealth)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed := methods[r.URL.Path]; allowed != "" {
			w.Header().Set("Allow", allowed)
			fail(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s does not go with %s: use %s", r.Method, r.URL.Path, allowed))
			return
		}
		fail(w, http.StatusNotFound, "there is no "+r.URL.Path+": ask for /v1/coefficients, /v1/history, /v1/events, /v1/status or /v1/keys")
	})
	foreign := http.NewCrossOriginProtection() // a page in somebody's browser is no coordinator
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, "a page of another origin may not post here")
	}))
	return foreign.Handler(mux)
}

// fail answers with an error as JSON: what happened and what to do.
func fail(w http.ResponseWriter, code int, text string) {
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, code, struct {
		Error string `json:"error"`
	}{text})
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

// getNewest gives the newest document; a conditional request that has it already
// may wait for the next.
func (s *Server) getNewest(w http.ResponseWriter, r *http.Request) {
	held, changed := s.now()
	if wait := waitOf(r.Header); wait > 0 && (held == nil || hasTag(r.Header, held.Digest)) {
		var waited bool
		if held, waited = s.await(w, r, held, changed, min(wait, s.cfg.MaxWait)); waited {
			w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(min(wait, s.cfg.MaxWait)/time.Second)))
		}
	}
	if held == nil {
		fail(w, http.StatusServiceUnavailable, "no coefficients are published yet, or none verifies: run kvwhatif calibrate, and see /healthz")
		return
	}
	w.Header().Set("Vary", "Prefer")
	writeDocument(w, r, held, "no-cache")
}

// getRevision gives any document; it never changes.
func (s *Server) getRevision(w http.ResponseWriter, r *http.Request) {
	revision, err := strconv.ParseInt(r.PathValue("revision"), 10, 64)
	if err != nil || revision < 1 {
		fail(w, http.StatusBadRequest, fmt.Sprintf("%q is no revision: give a number from 1, see /v1/history", r.PathValue("revision")))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	found, err := publish.Get(ctx, s.cfg.Store, revision)
	switch {
	case errors.Is(err, publish.ErrNotFound):
		fail(w, http.StatusNotFound, fmt.Sprintf("there is no revision %d: see /v1/history", revision))
	case err != nil:
		fail(w, http.StatusServiceUnavailable, "the store does not answer: "+err.Error())
	default:
		writeDocument(w, r, &found, "public, max-age=31536000, immutable")
	}
}

func writeDocument(w http.ResponseWriter, r *http.Request, p *publish.Published, cache string) {
	h := w.Header()
	h.Set("ETag", `"`+p.Digest+`"`)
	h.Set("Cache-Control", cache)
	if hasTag(r.Header, p.Digest) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(p.Signed.Payload)))
	h.Set(coefficients.SignatureHeader, p.Signed.Signature)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.Signed.Payload)
	}
}

// hasTag says whether If-None-Match names digest (RFC 9110, 13.1.2: by weak
// comparison).
func hasTag(h http.Header, digest string) bool {
	for _, line := range h.Values("If-None-Match") {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == `"`+digest+`"` {
				return true
			}
		}
	}
	return false
}

func (s *Server) getHistory(w http.ResponseWriter, r *http.Request) {
	limit := defaultHistory
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxHistory {
			fail(w, http.StatusBadRequest, fmt.Sprintf("limit %q: give 1 to %d", text, maxHistory))
			return
		}
		limit = n
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	entries, err := publish.History(ctx, s.cfg.Store, limit)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, "the store does not answer: "+err.Error())
		return
	}
	writeJSON(w, http.StatusOK, entries)
}

func (s *Server) getKeys(w http.ResponseWriter, _ *http.Request) {
	var out []byte
	for _, key := range s.cfg.Keys {
		text, err := coefficients.PublicKeyPEM(key)
		if err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		out = append(out, text...)
	}
	w.Header().Set("Content-Type", "application/x-pem-file")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(out)
}

// health is what /healthz says. It is 200 while the process answers: to start it
// again would help nobody, and lose what it holds.
type health struct {
	Status       string `json:"status"` // ok, or degraded and Error says why
	Revision     int64  `json:"revision"`
	Digest       string `json:"digest,omitempty"`
	ExpiresNanos int64  `json:"expires_unix_nanos,omitempty"`
	Waiters      int    `json:"waiters"`
	Error        string `json:"error,omitempty"`
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) {
	out := health{Status: "ok", Waiters: len(s.waiters)}
	s.mu.Lock()
	held, err := s.held, s.lastErr
	s.mu.Unlock()
	if held != nil {
		out.Revision, out.Digest, out.ExpiresNanos = held.Document.Revision, held.Digest, held.Document.Expires
	}
	switch {
	case err != nil:
		out.Status, out.Error = "degraded", err.Error()
	case held == nil:
		out.Status, out.Error = "degraded", "the store was not read yet"
	case held.Document.Expires <= s.cfg.Now().UnixNano():
		out.Status, out.Error = "degraded", "the coefficients have expired: run kvwhatif calibrate"
	}
	writeJSON(w, http.StatusOK, out)
}
