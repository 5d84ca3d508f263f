package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrTaken says that the revision has another document.
var ErrTaken = errors.New("the revision is taken")

// ErrNotFound says that there is no such document.
var ErrNotFound = errors.New("no such coefficient document")

// Row is a row of the table coefficients: a document as it was published.
type Row struct {
	Revision     int64
	CreatedNanos int64  // Unix nanoseconds
	Payload      string // exact bytes of the document
	Signature    string // detached JWS
	Note         string // why, for people; NotePrices where only prices changed
}

// Store keeps rows for good. A read that begins after an insert has returned sees
// it.
type Store interface {
	// Insert adds row, and returns ErrTaken where its revision has another document.
	// The same row again is no error.
	Insert(ctx context.Context, row Row) error
	// Newest gives the rows of the limit highest revisions, highest first.
	Newest(ctx context.Context, limit int) ([]Row, error)
	// At gives the row of one revision, or ErrNotFound.
	At(ctx context.Context, revision int64) (Row, error)
}

// Memory is a Store for tests and for a process that needs to keep nothing.
type Memory struct {
	mu   sync.Mutex
	rows []Row // highest revision first
}

// Insert is of Store.
func (m *Memory) Insert(_ context.Context, row Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, found := m.find(row.Revision)
	if found {
		return taken(m.rows[at], row)
	}
	m.rows = slices.Insert(m.rows, at, row)
	return nil
}

// Newest is of Store.
func (m *Memory) Newest(_ context.Context, limit int) ([]Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.rows[:min(limit, len(m.rows))]), nil
}

// At is of Store.
func (m *Memory) At(_ context.Context, revision int64) (Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, found := m.find(revision); found {
		return m.rows[at], nil
	}
	return Row{}, ErrNotFound
}

func (m *Memory) find(revision int64) (int, bool) {
	return slices.BinarySearchFunc(m.rows, revision, func(r Row, revision int64) int { return cmp.Compare(revision, r.Revision) })
}

// taken is nil where the document that is there is the one that was to be.
func taken(there, row Row) error {
	if there.Payload == row.Payload && there.Signature == row.Signature {
		return nil
	}
	return fmt.Errorf("%w: revision %d (%s)", ErrTaken, there.Revision, there.Note)
}
