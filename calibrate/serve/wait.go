package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
)

const (
	writeSlack = 10 * time.Second // to write an answer after a wait
	keepAlive  = 15 * time.Second // between signs of life of an event stream
)

// waitOf reads Prefer: wait=SECONDS (RFC 7240, 4.3); 0 where it is not there or
// makes no sense, for a preference may be ignored.
func waitOf(h http.Header) time.Duration {
	for _, line := range h.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || seconds < 0 || seconds > 3600 {
				return 0
			}
			return time.Duration(seconds) * time.Second
		}
	}
	return 0
}

// slot takes one of MaxWaiters; the caller gives it back. Without one, nobody may
// wait.
func (s *Server) slot() bool {
	select {
	case <-s.done:
		return false
	default:
	}
	select {
	case s.waiters <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *Server) giveBack() { <-s.waiters }

// await waits for another document than held; waited is false where there was no
// room to wait.
func (s *Server) await(w http.ResponseWriter, r *http.Request, held *publish.Published, changed <-chan struct{}, wait time.Duration) (next *publish.Published, waited bool) {
	if !s.slot() {
		return held, false
	}
	defer s.giveBack()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeSlack)) // not every writer can
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
		held, _ = s.now()
	case <-timer.C:
	case <-r.Context().Done():
	case <-s.done:
	}
	return held, true
}

// event is the data of an event.
type event struct {
	Revision int64  `json:"revision"`
	Digest   string `json:"digest"`
}

// getEvents tells of the document that is held and of each that follows, though
// not of those that came and went while one was being told of. The document itself
// is fetched by GET.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request) {
	if !s.slot() {
		fail(w, http.StatusServiceUnavailable, "too many coordinators wait here already: poll /v1/coefficients instead")
		return
	}
	defer s.giveBack()
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // of nginx, which would hold events back
	if _, err := fmt.Fprint(w, "retry: 5000\n\n"); err != nil {
		return
	}
	told := r.Header.Get("Last-Event-ID")
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		held, changed := s.now()
		if held != nil && told != strconv.FormatInt(held.Document.Revision, 10) {
			told = strconv.FormatInt(held.Document.Revision, 10)
			writeEvent(w, held)
		}
		_ = control.SetWriteDeadline(time.Now().Add(keepAlive + writeSlack))
		if control.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-ticker.C:
			_, _ = fmt.Fprint(w, ": still here\n\n")
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

func writeEvent(w http.ResponseWriter, p *publish.Published) {
	data, _ := json.Marshal(event{Revision: p.Document.Revision, Digest: p.Digest})
	_, _ = fmt.Fprintf(w, "event: coefficients\nid: %d\ndata: %s\n\n", p.Document.Revision, data)
}
