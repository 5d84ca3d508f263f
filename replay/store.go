package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"

	"github.com/gofrs/flock"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
)

// Store remembers which legs were planned, have a result, and are done with. On
// disk it is an append-only file of JSON lines, synced before a call returns,
// and compacted when it is opened and now and then. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	path    string   // "" in memory
	file    *os.File // nil in memory
	lock    *flock.Flock
	written int   // records since the last compaction
	broken  error // a write failed: what is in the file is not known any more
	legs    map[string]*entry
	books   Books
	plans   []sample.Entry
}

// entry is what is known of a leg.
type entry struct {
	at     int64 // Unix nanoseconds
	leg    *execute.Leg
	result *execute.Result
	done   bool   // emitted, dropped or refused
	why    string // why it did not run; "" where it was emitted
}

// line is one record of the file.
type line struct {
	ID     string          `json:"id"`
	At     int64           `json:"at"`
	Leg    *execute.Leg    `json:"leg,omitempty"`
	Result *execute.Result `json:"result,omitempty"`
	Done   bool            `json:"done,omitempty"`
	Why    string          `json:"why,omitempty"`   // of a leg that was given up
	Books  *Books          `json:"books,omitempty"` // a line of its own, with booksID
}

const (
	storeFile = "legs.jsonl"
	lockFile  = "legs.lock"
	// maxWritten is how many records are appended before a compaction.
	maxWritten = 200_000
)

// NewMemoryStore makes a store that a restart forgets, for simulations.
func NewMemoryStore() *Store { return &Store{legs: map[string]*entry{}} }

// OpenStore opens the store in dir, which it makes. Legs that were done with
// before forget (Unix nanoseconds) are dropped: choose it older than any
// decision that may come again. Only one process may have a store open.
func OpenStore(dir string, forget int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the replay state: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, fmt.Errorf("open the replay state in %s: another process has it open (%v)", dir, err)
	}
	s := NewMemoryStore()
	s.lock = lock
	if err := s.load(dir, forget); err != nil {
		return nil, errors.Join(fmt.Errorf("open the replay state: %w", err), lock.Unlock())
	}
	return s, nil
}

func (s *Store) load(dir string, forget int64) error {
	path := filepath.Join(dir, storeFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.replay(data); err != nil {
		return fmt.Errorf("%s: %w; move the file away to start anew: legs that ran may then run again", path, err)
	}
	if s.plans, err = ReadPlans(filepath.Join(dir, PlansFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.path = path
	return s.forget(forget)
}

// Forget drops legs that were done with before an instant (Unix nanoseconds),
// and rewrites the file without what it does not need.
func (s *Store) Forget(before int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	if err := s.forget(before); err != nil {
		s.broken = fmt.Errorf("compact the replay state: %w; free the disk and start again", err)
	}
	return s.broken
}

func (s *Store) forget(before int64) (err error) {
	for id, e := range s.legs {
		if e.done && e.at < before {
			delete(s.legs, id)
		}
	}
	s.written = 0
	if s.path == "" {
		return nil
	}
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			return err
		}
	}
	if err := s.compact(s.path); err != nil {
		return err
	}
	s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}

// full tells whether the file is worth compacting.
func (s *Store) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written > maxWritten
}

// replay reads the records. A last line without its end was being written in a
// crash; nobody was told that it is durable.
func (s *Store) replay(data []byte) error {
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	for number := 1; len(data) > 0; number++ {
		end := bytes.IndexByte(data, '\n')
		var l line
		if err := json.Unmarshal(data[:end], &l); err != nil || l.ID == "" {
			return fmt.Errorf("line %d can not be read: %v", number, err)
		}
		s.apply(l)
		data = data[end+1:]
	}
	return nil
}

func (s *Store) apply(l line) {
	if l.Books != nil {
		s.books.merge(l.Books)
		return
	}
	e := s.legs[l.ID]
	if e == nil {
		e = &entry{}
		s.legs[l.ID] = e
	}
	e.at = l.At
	if l.Leg != nil {
		e.leg = l.Leg
	}
	if l.Result != nil {
		e.result = l.Result
	}
	if l.Done {
		e.done, e.leg, e.result, e.why = true, nil, nil, l.Why
	}
}

// compact writes what is known into a new file and puts it in place at once.
func (s *Store) compact(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), storeFile+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriter(f)
	if err := writeLine(w, line{ID: booksID, Books: &s.books}); err != nil {
		return errors.Join(err, f.Close())
	}
	for _, id := range s.ids() {
		e := s.legs[id]
		if err := writeLine(w, line{ID: id, At: e.at, Leg: e.leg, Result: e.result, Done: e.done, Why: e.why}); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeLine(w io.Writer, l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// append makes records durable, then known. After a failure nothing more is
// written: the file may end in half a record.
func (s *Store) append(lines ...line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	if s.file != nil && len(lines) > 0 {
		if err := s.write(lines); err != nil {
			s.broken = fmt.Errorf("write the replay state: %w; free the disk and start again", err)
			return s.broken
		}
	}
	for _, l := range lines {
		s.apply(l)
	}
	s.written += len(lines)
	return nil
}

func (s *Store) write(lines []line) error {
	var b bytes.Buffer
	for _, l := range lines {
		if err := writeLine(&b, l); err != nil {
			return err
		}
	}
	if _, err := s.file.Write(b.Bytes()); err != nil {
		return err
	}
	return s.file.Sync()
}

// seen tells whether the leg was ever planned, dropped or done.
func (s *Store) seen(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.legs[id] != nil
}

// finished is a leg with its result, not emitted yet.
type finished struct {
	leg    execute.Leg
	result execute.Result
}

// pending gives the legs without a result, and those with one that was not
// emitted, in the order of their ids.
func (s *Store) pending() (legs []execute.Leg, unsent []finished) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.ids() {
		switch e := s.legs[id]; {
		case e.done || e.leg == nil:
		case e.result == nil:
			legs = append(legs, *e.leg)
		default:
			unsent = append(unsent, finished{*e.leg, *e.result})
		}
	}
	return legs, unsent
}

func (s *Store) ids() []string {
	ids := make([]string, 0, len(s.legs))
	for id := range s.legs {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// Close closes the file and gives the directory free.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	s.broken = errors.New("the replay state is closed")
	return errors.Join(s.file.Close(), s.lock.Unlock())
}
