package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/calibrate/serve"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// CoefficientSource is where coefficient documents are looked at: a coefficient
// server, or the tables.
type CoefficientSource struct {
	URL    string // of a coefficient server
	Tables bool   // the database of the settings, or of their directory, instead
}

// documents is a source of documents and of what coordinators said of them.
type documents interface {
	// get gives the exact bytes and the signature of a revision; 0 is the newest.
	get(ctx context.Context, revision int64) (schema.SignedDocument, error)
	history(ctx context.Context, limit int) ([]publish.Entry, error)
	statuses(ctx context.Context, since time.Duration) ([]schema.AppliedStatus, error)
	close() error
}

// open connects to the source.
func (c CoefficientSource) open(ctx context.Context, s *Settings) (documents, error) {
	if !c.Tables {
		return newServerDocuments(c.URL)
	}
	conn, _, err := openTables(ctx, s)
	if err != nil {
		return nil, err
	}
	return tableDocuments{conn}, nil
}

// tableDocuments are those of the table coefficients.
type tableDocuments struct{ conn *clickhouse.Conn }

func (t tableDocuments) get(ctx context.Context, revision int64) (schema.SignedDocument, error) {
	var p publish.Published
	var err error
	if revision == 0 {
		p, err = publish.Latest(ctx, publish.NewClickHouse(t.conn))
	} else {
		p, err = publish.Get(ctx, publish.NewClickHouse(t.conn), revision)
	}
	if errors.Is(err, publish.ErrNotFound) {
		return schema.SignedDocument{}, noDocument(revision)
	}
	return p.Signed, err
}

func noDocument(revision int64) error {
	if revision == 0 {
		return errors.New("no coefficients are published yet: run `kvwhatif calibrate`")
	}
	return fmt.Errorf("there is no revision %d: see `kvwhatif coefficients history`", revision)
}

func (t tableDocuments) history(ctx context.Context, limit int) ([]publish.Entry, error) {
	return publish.History(ctx, publish.NewClickHouse(t.conn), limit)
}

func (t tableDocuments) statuses(ctx context.Context, since time.Duration) ([]schema.AppliedStatus, error) {
	return serve.NewStatusTable(t.conn).Last(ctx, time.Now().Add(-since))
}

func (t tableDocuments) close() error { return t.conn.Close() }

// Coefficients gives a revision, 0 for the newest. Where publicKey names a file, the
// document is verified by it first.
func Coefficients(ctx context.Context, s *Settings, from CoefficientSource, revision int64, publicKey string) (out *CoefficientDocument, err error) {
	d, err := from.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	signed, err := d.get(ctx, revision)
	if err != nil {
		return nil, err
	}
	if publicKey == "" && from.Tables {
		publicKey = s.ownPublicKey()
	}
	return readDocument(signed, publicKey)
}

// ownPublicKey is the file of the directory's key; empty where there is none.
func (s *Settings) ownPublicKey() string {
	path := strings.TrimSuffix(filepath.Join(s.Dir, keyFile), filepath.Ext(keyFile)) + ".pub"
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// readDocument decodes a document, after its signature was verified where a key is
// named.
func readDocument(signed schema.SignedDocument, publicKey string) (*CoefficientDocument, error) {
	out := &CoefficientDocument{Payload: signed.Payload, Signature: signed.Signature, Digest: coefficients.Digest(signed.Payload)}
	if publicKey != "" {
		keys, err := readPublicKeys(publicKey)
		if err != nil {
			return nil, err
		}
		if err := coefficients.Verify(signed.Payload, signed.Signature, keys...); err != nil {
			return nil, err
		}
		out.Verified = true
	}
	var err error
	out.document, err = coefficients.Decode(signed.Payload)
	return out, err
}

// VerifyCoefficients checks the detached signature over a file. signature is the
// signature itself, or the name of a file that holds it.
func VerifyCoefficients(file, signature, publicKey string) (*CoefficientDocument, error) {
	payload, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	if raw, err := os.ReadFile(signature); err == nil {
		signature = string(raw)
	}
	if publicKey == "" {
		_, err := readPublicKeys("")
		return nil, err
	}
	return readDocument(schema.SignedDocument{Payload: payload, Signature: strings.TrimSpace(signature)}, publicKey)
}

// CoefficientHistory gives the newest limit publications, newest first.
func CoefficientHistory(ctx context.Context, s *Settings, from CoefficientSource, limit int) (out CoefficientEntries, err error) {
	d, err := from.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	found, err := d.history(ctx, limit)
	return append(CoefficientEntries{}, found...), err
}

// CoefficientStatus gives the last word of each coordinator that spoke within since.
func CoefficientStatus(ctx context.Context, s *Settings, from CoefficientSource, since time.Duration) (out CoordinatorStatuses, err error) {
	d, err := from.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	found, err := d.statuses(ctx, since)
	return append(CoordinatorStatuses{}, found...), err
}

// RollbackCoefficients publishes the laws of revision to again, under a new revision,
// which it gives.
func RollbackCoefficients(ctx context.Context, s *Settings, to int64) (revision int64, err error) {
	conn, _, err := openTables(ctx, s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := s.mayPublish(ctx, conn); err != nil {
		return 0, err
	}
	p, err := s.publisher(conn)
	if err != nil {
		return 0, err
	}
	done, err := p.Rollback(ctx, to, fmt.Sprintf("%s, rollback to revision %d", provenance(), to))
	if errors.Is(err, publish.ErrNotFound) {
		return 0, noDocument(to)
	}
	if err != nil {
		return 0, fmt.Errorf("roll back to revision %d: %w", to, err)
	}
	return done.Document.Revision, nil
}
