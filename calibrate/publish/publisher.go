package publish

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// ClaimLife is how long others wait for a claim.
const ClaimLife = 30 * time.Second

// Default times of a document, after it is created.
const (
	DefaultRefreshAfter = time.Hour
	DefaultLifetime     = 24 * time.Hour
)

// ErrConflict says that somebody else published since Draft.Base: judge again
// against what is there now.
var ErrConflict = errors.New("another coefficient document was published meanwhile")

// ErrNotFound says that there is no such document.
var ErrNotFound = errors.New("no such coefficient document")

// Publisher signs documents and puts them in a store.
type Publisher struct {
	store        Store
	key          ed25519.PrivateKey
	refreshAfter time.Duration
	lifetime     time.Duration
}

// New makes a publisher; 0 for a time means its default.
func New(store Store, key ed25519.PrivateKey, refreshAfter, lifetime time.Duration) *Publisher {
	if refreshAfter <= 0 {
		refreshAfter = DefaultRefreshAfter
	}
	if lifetime <= 0 {
		lifetime = DefaultLifetime
	}
	return &Publisher{store: store, key: key, refreshAfter: min(refreshAfter, lifetime), lifetime: lifetime}
}

// PublicKey verifies what p signs.
func (p *Publisher) PublicKey() ed25519.PublicKey { return p.key.Public().(ed25519.PublicKey) }

// Draft is a document to publish. Version, Revision, Previous, Created,
// RefreshAfter and Expires are set by Publish.
type Draft struct {
	Document schema.Document
	Base     int64  // revision that it was judged against; 0: there was none
	Note     string // why, for people; NotePrices where only prices changed
}

// Published is a document as it was published.
type Published struct {
	Document schema.Document
	Signed   schema.SignedDocument
	Digest   string
	Note     string
}

// Publish gives d the next revision, signs and stores it. It returns ErrConflict,
// and publishes nothing that a reader would take up, if since d.Base a fit was
// published (or, for a draft of prices, anything). A fit takes over the prices of
// the newest document where it has none of its own.
func (p *Publisher) Publish(ctx context.Context, d Draft) (Published, error) {
	claimant, err := newClaimant()
	if err != nil {
		return Published{}, err
	}
	for {
		rows, err := p.store.Newest(ctx, d.reach())
		if err != nil {
			return Published{}, fmt.Errorf("read coefficient revisions: %w", err)
		}
		if held, ok := heldBy(rows, time.Now()); ok {
			if err := pause(ctx, held); err != nil {
				return Published{}, err
			}
			continue
		}
		if err := conflict(rows, d); err != nil {
			return Published{}, err
		}
		revision := highest(rows) + 1
		mine, err := p.claim(ctx, revision, claimant)
		if err != nil {
			return Published{}, err
		}
		if mine {
			return p.publishAs(ctx, d, revision, rows)
		}
		if err := sleep(ctx, mathrand.N(100*time.Millisecond)); err != nil {
			return Published{}, err
		}
	}
}

// historyForConflicts is how far back a fit may have been judged, in documents.
const historyForConflicts = 1000

// reach is how many documents must be looked at for conflicts: prices conflict
// with whatever is newer.
func (d Draft) reach() int {
	if d.Note == NotePrices {
		return 2
	}
	return historyForConflicts
}

// conflict finds what was published since d.Base and d does not know of.
func conflict(rows []Row, d Draft) error {
	known := d.Base == 0
	for _, r := range rows {
		if r.Payload == "" {
			continue
		}
		if r.Revision <= d.Base {
			known = true
			break
		}
		if r.Note != NotePrices || d.Note == NotePrices || d.Base == 0 {
			return fmt.Errorf("%w: revision %d (%s) came after %d", ErrConflict, r.Revision, r.Note, d.Base)
		}
	}
	if !known {
		return fmt.Errorf("%w: revision %d, which was judged against, is not among the newest %d", ErrConflict, d.Base, d.reach())
	}
	return nil
}

// claim says whether claimant holds revision; if not it has given it back.
func (p *Publisher) claim(ctx context.Context, revision int64, claimant string) (bool, error) {
	row := Row{Revision: revision, CreatedNanos: time.Now().UnixNano(), Signature: claimant, Note: noteClaim}
	if err := p.store.Insert(ctx, row); err != nil {
		return false, fmt.Errorf("claim revision %d: %w", revision, err)
	}
	rows, err := p.store.At(ctx, revision)
	if err != nil {
		return false, fmt.Errorf("read claims on revision %d: %w", revision, err)
	}
	if soleClaim(rows, claimant) {
		return true, nil
	}
	row.CreatedNanos, row.Note = max(time.Now().UnixNano(), row.CreatedNanos+1), noteVoid
	if err := p.store.Insert(ctx, row); err != nil {
		return false, fmt.Errorf("give back revision %d: %w", revision, err)
	}
	return false, nil
}

// publishAs stores d as revision, which is held.
func (p *Publisher) publishAs(ctx context.Context, d Draft, revision int64, rows []Row) (Published, error) {
	document := d.Document
	now := time.Now()
	document.Version, document.Revision, document.Previous = schema.DocumentVersion, revision, 0
	document.Created = now.UnixNano()
	document.RefreshAfter = now.Add(p.refreshAfter).UnixNano()
	document.Expires = now.Add(p.lifetime).UnixNano()
	if before, ok := latest(rows); ok {
		document.Previous = before.Revision
		if err := takePrices(&document, before, d.Note); err != nil {
			return Published{}, err
		}
	}
	signed, err := coefficients.Seal(document, p.key)
	if err != nil {
		return Published{}, err
	}
	row := Row{Revision: revision, CreatedNanos: document.Created, Payload: string(signed.Payload), Signature: signed.Signature, Note: d.Note}
	if err := p.store.Insert(ctx, row); err != nil {
		return Published{}, fmt.Errorf("store revision %d: %w", revision, err)
	}
	after, err := p.store.Newest(ctx, 1)
	if err != nil {
		return Published{}, fmt.Errorf("revision %d is stored; reading it back: %w", revision, err)
	}
	if last, _ := latest(after); last.Revision != revision {
		return Published{}, fmt.Errorf("%w: revision %d came while revision %d was being stored", ErrConflict, last.Revision, revision)
	}
	return Published{Document: coefficients.Canonical(document), Signed: signed, Digest: coefficients.Digest(signed.Payload), Note: d.Note}, nil
}

func takePrices(d *schema.Document, before Row, note string) error {
	if note == NotePrices || len(d.Links) > 0 {
		return nil
	}
	old, err := coefficients.Decode([]byte(before.Payload))
	if err != nil {
		return fmt.Errorf("take over prices of revision %d: %w", before.Revision, err)
	}
	d.Links = old.Links
	return nil
}

func newClaimant() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("name a claim: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// pause waits for a claim to end: a short while, then it is looked at again.
func pause(ctx context.Context, held Row) error {
	if err := sleep(ctx, 50*time.Millisecond+mathrand.N(100*time.Millisecond)); err != nil {
		return fmt.Errorf("wait for the publisher that holds revision %d: %w", held.Revision, err)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
