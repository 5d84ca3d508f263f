package publish

import (
	"context"
	"sync"
)

// Row is a row of the table coefficients: a document, or, without a payload, a
// claim on its revision or the end of one.
type Row struct {
	Revision     int64
	CreatedNanos int64  // Unix nanoseconds; with the revision the key of the row
	Payload      string // exact bytes of the document; "" on a claim
	Signature    string // detached JWS; on a claim who claims
	Note         string // why, for people; on a claim noteClaim or noteVoid
}

const (
	noteClaim = "claim"
	noteVoid  = "void"
	// NotePrices marks a document that changed the link prices and nothing else.
	NotePrices = "prices"
)

// Store keeps rows. A read that begins after an insert has returned sees it.
type Store interface {
	Insert(ctx context.Context, row Row) error
	// Newest gives the rows of the highest revisions, highest first, at least those
	// of the limit highest that have a document, claims between them included.
	Newest(ctx context.Context, limit int) ([]Row, error)
	// At gives the rows of one revision.
	At(ctx context.Context, revision int64) ([]Row, error)
}

// Memory is a Store for tests and for a server that needs to keep nothing.
type Memory struct {
	mu   sync.Mutex
	rows []Row
}

// Insert appends row.
func (m *Memory) Insert(_ context.Context, row Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = append(m.rows, row)
	return nil
}

// Newest is of Store.
func (m *Memory) Newest(_ context.Context, limit int) ([]Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return newest(m.rows, limit), nil
}

// At is of Store.
func (m *Memory) At(_ context.Context, revision int64) ([]Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Row
	for _, r := range m.rows {
		if r.Revision == revision {
			out = append(out, r)
		}
	}
	return out, nil
}
