package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
)

const (
	maxStatusBody = 16 << 10
	maxInstance   = 256  // bytes of a name
	maxReason     = 4096 // bytes
	maxPending    = 10_000
	statusesKept  = 7 * 24 * time.Hour // an instance that was silent for longer is forgotten
	lastWord      = 24 * time.Hour     // for which it is counted in metrics
	statusesEvery = time.Minute        // the store is read again, for other servers
	clockSlack    = 5 * time.Minute    // by which a coordinator's clock may be ahead
)

// StatusStore keeps what coordinators said.
type StatusStore interface {
	Put(ctx context.Context, said []schema.AppliedStatus) error
	// Last gives the last word of each instance since then.
	Last(ctx context.Context, since time.Time) ([]schema.AppliedStatus, error)
}

var errTooMany = errors.New("too many statuses wait to be written")

// statuses is the last word of each instance, and what is yet to be written: a
// write each Poll, for a row at a time would be a part at a time in ClickHouse.
type statuses struct {
	store StatusStore // nil: none
	*statusState
}

type statusState struct {
	mu      sync.Mutex
	last    map[string]schema.AppliedStatus
	pending []schema.AppliedStatus
	read    time.Time // when the store was last read
}

func newStatuses(store StatusStore) statuses {
	return statuses{store: store, statusState: &statusState{last: map[string]schema.AppliedStatus{}}}
}

func (s *statuses) add(said schema.AppliedStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.last[said.Instance]; len(s.pending) >= maxPending || !known && len(s.last) >= maxPending {
		return errTooMany
	}
	s.keep(said)
	if s.store != nil {
		s.pending = append(s.pending, said)
	}
	return nil
}

func (s *statuses) keep(said schema.AppliedStatus) {
	if old, ok := s.last[said.Instance]; !ok || old.AtNanos <= said.AtNanos {
		s.last[said.Instance] = said
	}
}

// count is of instances whose last word since then was that.
func (s *statuses) count(applied bool, then time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, said := range s.last {
		if said.Applied == applied && said.AtNanos >= then.UnixNano() {
			n++
		}
	}
	return n
}

// list is by instance.
func (s *statuses) list() []schema.AppliedStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]schema.AppliedStatus, 0, len(s.last))
	for _, said := range s.last {
		out = append(out, said)
	}
	slices.SortFunc(out, func(a, b schema.AppliedStatus) int { return cmp.Compare(a.Instance, b.Instance) })
	return out
}

// heardSince counts the instances that said something since then.
func (s *statuses) heardSince(then time.Time) (n int64) {
	for _, said := range s.list() {
		if said.AtNanos >= then.UnixNano() {
			n++
		}
	}
	return n
}

// sync writes what is pending, reads the store again now and then, and forgets who
// was silent for long.
func (s *statuses) sync(ctx context.Context, now time.Time) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	var stored []schema.AppliedStatus
	since := now.Add(-statusesKept)
	due := s.store != nil && now.Sub(s.read).Abs() >= statusesEvery
	if due {
		var err error
		if stored, err = s.store.Last(ctx, since); err != nil {
			return fmt.Errorf("read what coordinators said: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if due {
		s.read = now
	}
	for _, said := range stored {
		s.keep(said)
	}
	for instance, said := range s.last {
		if said.AtNanos < since.UnixNano() {
			delete(s.last, instance)
		}
	}
	return nil
}

// flush writes what is pending; what could not be written stays so.
func (s *statuses) flush(ctx context.Context) error {
	s.mu.Lock()
	batch := s.pending
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	if err := s.store.Put(ctx, batch); err != nil {
		return fmt.Errorf("write what coordinators said: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = s.pending[len(batch):]
	return nil
}

// postStatus hears a coordinator. It answers 202: the status is written at the
// next Poll, and lost if the process dies before.
func (s *Server) postStatus(w http.ResponseWriter, r *http.Request) {
	var said schema.AppliedStatus
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxStatusBody)).Decode(&said); err != nil {
		code := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		fail(w, code, fmt.Sprintf("a status is a JSON object of at most %d bytes with instance, revision, applied, reason and at_unix_nanos: %v", maxStatusBody, err))
		return
	}
	if err := s.completeStatus(&said, r.RemoteAddr); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := s.statuses.add(said); err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error()+": try again")
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// completeStatus fills in who and when, and says what can not be so.
func (s *Server) completeStatus(said *schema.AppliedStatus, from string) error {
	now := s.cfg.Now()
	if said.Instance == "" {
		host, _, _ := net.SplitHostPort(from)
		said.Instance = "unnamed at " + host
	}
	if said.AtNanos == 0 {
		said.AtNanos = now.UnixNano()
	}
	switch {
	case len(said.Instance) > maxInstance || len(said.Reason) > maxReason:
		return fmt.Errorf("an instance has at most %d bytes and a reason %d", maxInstance, maxReason)
	case said.Revision < 0:
		return errors.New("a revision is not negative")
	case said.AtNanos > now.Add(clockSlack).UnixNano() || said.AtNanos < now.Add(-statusesKept).UnixNano():
		return fmt.Errorf("at_unix_nanos is %s, and it is %s here: set the clock", time.Unix(0, said.AtNanos).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case !said.Applied && said.Reason == "":
		return errors.New("a document that was not applied needs a reason")
	}
	return nil
}

func (s *Server) getStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.statuses.list())
}
