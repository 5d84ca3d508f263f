package publish

import (
	"context"
	"fmt"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// Entry is one line of the history.
type Entry struct {
	Revision     int64  `json:"revision"`
	Previous     int64  `json:"previous"`
	CreatedNanos int64  `json:"created_unix_nanos"`
	Digest       string `json:"digest"`
	Provenance   string `json:"provenance"`
	Note         string `json:"note"`
}

// History gives the newest limit documents, newest first.
func (p *Publisher) History(ctx context.Context, limit int) ([]Entry, error) {
	rows, err := p.store.Newest(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("read coefficient history: %w", err)
	}
	out := []Entry{}
	for _, r := range rows {
		if r.Payload == "" {
			continue
		}
		found, err := opened(r)
		if err != nil {
			return nil, err
		}
		d := found.Document
		out = append(out, Entry{Revision: d.Revision, Previous: d.Previous, CreatedNanos: d.Created,
			Digest: found.Digest, Provenance: d.Provenance, Note: r.Note})
	}
	return out, nil
}

// Latest is the newest document; ErrNotFound where none was ever published.
func (p *Publisher) Latest(ctx context.Context) (Published, error) {
	rows, err := p.store.Newest(ctx, 1)
	if err != nil {
		return Published{}, fmt.Errorf("read the newest coefficients: %w", err)
	}
	row, ok := latest(rows)
	if !ok {
		return Published{}, fmt.Errorf("%w: none is published yet; run a calibration", ErrNotFound)
	}
	return opened(row)
}

// Get is the document of one revision, or ErrNotFound.
func (p *Publisher) Get(ctx context.Context, revision int64) (Published, error) {
	rows, err := p.store.At(ctx, revision)
	if err != nil {
		return Published{}, fmt.Errorf("read coefficients %d: %w", revision, err)
	}
	for _, r := range rows {
		if r.Payload != "" {
			return opened(r)
		}
	}
	return Published{}, fmt.Errorf("%w: revision %d; see the history for those there are", ErrNotFound, revision)
}

// opened decodes a stored document. Its signature is not verified here: a client
// does, and the key may have been replaced since.
func opened(r Row) (Published, error) {
	d, err := coefficients.Decode([]byte(r.Payload))
	if err != nil {
		return Published{}, fmt.Errorf("stored coefficients %d: %w", r.Revision, err)
	}
	if d.Revision != r.Revision {
		return Published{}, fmt.Errorf("stored coefficients %d say that they are revision %d", r.Revision, d.Revision)
	}
	signed := schema.SignedDocument{Payload: []byte(r.Payload), Signature: r.Signature}
	return Published{Document: d, Signed: signed, Digest: coefficients.Digest(signed.Payload), Note: r.Note}, nil
}

// Rollback publishes the laws of revision to again, under a new and higher revision
// and signed anew, with the prices of now. Clients follow it as any other.
func (p *Publisher) Rollback(ctx context.Context, to int64, provenance string) (Published, error) {
	old, err := p.Get(ctx, to)
	if err != nil {
		return Published{}, err
	}
	current, err := p.Latest(ctx)
	if err != nil {
		return Published{}, err
	}
	d := old.Document
	d.Links, d.Provenance = nil, provenance
	return p.Publish(ctx, Draft{Document: d, Base: current.Document.Revision, Note: fmt.Sprintf("rollback to %d", to)})
}
