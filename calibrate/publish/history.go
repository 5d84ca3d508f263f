package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// Published is a document as it was published.
type Published struct {
	Document schema.Document
	Signed   schema.SignedDocument
	Digest   string
	Note     string
}

// Entry is one line of the history.
type Entry struct {
	Revision     int64  `json:"revision"`
	Previous     int64  `json:"previous"`
	CreatedNanos int64  `json:"created_unix_nanos"`
	ExpiresNanos int64  `json:"expires_unix_nanos"`
	Digest       string `json:"digest"`
	Provenance   string `json:"provenance"`
	Note         string `json:"note"`
}

// History gives the newest limit documents of s, newest first.
func History(ctx context.Context, s Store, limit int) ([]Entry, error) {
	rows, err := s.Newest(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("read coefficient history: %w", err)
	}
	out := []Entry{}
	for _, r := range rows {
		found, err := Decode(r)
		if err != nil {
			return nil, err
		}
		d := found.Document
		out = append(out, Entry{Revision: d.Revision, Previous: d.Previous, CreatedNanos: d.Created, ExpiresNanos: d.Expires,
			Digest: found.Digest, Provenance: d.Provenance, Note: r.Note})
	}
	return out, nil
}

// Latest is the newest document of s; ErrNotFound where none was ever published.
func Latest(ctx context.Context, s Store) (Published, error) {
	rows, err := s.Newest(ctx, 1)
	if err != nil {
		return Published{}, fmt.Errorf("read the newest coefficients: %w", err)
	}
	if len(rows) == 0 {
		return Published{}, fmt.Errorf("%w: none is published yet; run kvwhatif calibrate", ErrNotFound)
	}
	return Decode(rows[0])
}

// Get is the document of one revision of s, or ErrNotFound.
func Get(ctx context.Context, s Store, revision int64) (Published, error) {
	row, err := s.At(ctx, revision)
	if errors.Is(err, ErrNotFound) {
		return Published{}, fmt.Errorf("%w: revision %d; the history lists those there are", ErrNotFound, revision)
	}
	if err != nil {
		return Published{}, fmt.Errorf("read coefficients %d: %w", revision, err)
	}
	return Decode(row)
}

// Decode reads a stored row. Its signature is not verified here: who trusts it
// does, and the key may have been replaced since.
func Decode(r Row) (Published, error) {
	signed := schema.SignedDocument{Payload: []byte(r.Payload), Signature: r.Signature}
	d, err := coefficients.Decode(signed.Payload)
	if err != nil {
		return Published{}, fmt.Errorf("stored coefficients %d: %w", r.Revision, err)
	}
	if d.Revision != r.Revision {
		return Published{}, fmt.Errorf("stored coefficients %d say that they are revision %d", r.Revision, d.Revision)
	}
	return Published{Document: d, Signed: signed, Digest: coefficients.Digest(signed.Payload), Note: r.Note}, nil
}
