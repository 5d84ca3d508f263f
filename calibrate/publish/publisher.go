package publish

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// Default times of a document, after it is created.
const (
	DefaultRefreshAfter = time.Hour
	DefaultLifetime     = 24 * time.Hour
)

// NotePrices marks a document that changed the link prices and nothing else.
const NotePrices = "prices"

// Errors of a publication. ErrConflict: judge again against what is there now.
var (
	ErrConflict = errors.New("another coefficient document was published meanwhile")
	ErrExpired  = errors.New("the coefficients have expired")
)

// Options of a publisher. A zero field means its default.
type Options struct {
	RefreshAfter time.Duration    // DefaultRefreshAfter
	Lifetime     time.Duration    // of laws, DefaultLifetime; prices do not prolong it
	Now          func() time.Time // the clock that documents are dated by; time.Now
}

// Publisher signs documents and puts them in a store.
type Publisher struct {
	store Store
	key   ed25519.PrivateKey
	opt   Options
}

// New makes a publisher that signs with key.
func New(store Store, key ed25519.PrivateKey, opt Options) *Publisher {
	if opt.RefreshAfter <= 0 {
		opt.RefreshAfter = DefaultRefreshAfter
	}
	if opt.Lifetime <= 0 {
		opt.Lifetime = DefaultLifetime
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Publisher{store: store, key: key, opt: opt}
}

// PublicKey verifies what p signs.
func (p *Publisher) PublicKey() ed25519.PublicKey { return p.key.Public().(ed25519.PublicKey) }

// Now is the clock that p dates documents by.
func (p *Publisher) Now() time.Time { return p.opt.Now() }

// Draft is a document to publish. Version, Revision, Previous, Created,
// RefreshAfter and Expires are set by Publish.
type Draft struct {
	Document schema.Document
	Base     int64  // revision that it was judged against; 0: there was none
	Note     string // why, for people
}

// Publish gives d the next revision, signs and stores it. It returns ErrConflict,
// and publishes nothing, if other laws than those of d.Base are the newest by then;
// new prices since are no conflict. A draft without prices takes over those of the
// newest document.
func (p *Publisher) Publish(ctx context.Context, d Draft) (Published, error) {
	for {
		before, err := p.newest(ctx)
		if err != nil {
			return Published{}, err
		}
		if err := p.conflict(ctx, before, d.Base); err != nil {
			return Published{}, err
		}
		document := d.Document
		document.Expires = p.opt.Now().Add(p.opt.Lifetime).UnixNano()
		if len(document.Links) == 0 {
			document.Links = before.Document.Links
		}
		out, err := p.put(ctx, document, before.Document.Revision, d.Note)
		if !errors.Is(err, ErrTaken) {
			return out, err
		}
	}
}

// Prices publishes base again with other prices. Its laws keep their expiry, so
// that a server cannot keep alive laws that nobody fits any more; after it, it
// returns ErrExpired. It returns ErrConflict if base is not the newest.
func (p *Publisher) Prices(ctx context.Context, base Published, links []schema.LinkPrice) (Published, error) {
	d := base.Document
	if now := p.opt.Now().UnixNano(); now >= d.Expires {
		return Published{}, fmt.Errorf("%w: the laws of revision %d, at %s; run kvwhatif calibrate", ErrExpired, d.Revision, time.Unix(0, d.Expires).UTC().Format(time.RFC3339))
	}
	before, err := p.newest(ctx)
	if err != nil {
		return Published{}, err
	}
	if before.Digest != base.Digest {
		return Published{}, fmt.Errorf("%w: revision %d (%s) after %d", ErrConflict, before.Document.Revision, before.Note, d.Revision)
	}
	d.Links = links
	out, err := p.put(ctx, d, d.Revision, NotePrices)
	if errors.Is(err, ErrTaken) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return out, err
}

// Renew publishes the laws of revision of again with a new expiry, if they are
// still the newest: the gate kept the champion.
func (p *Publisher) Renew(ctx context.Context, of int64) (Published, error) {
	return p.again(ctx, of, of, "", "the champion was kept")
}

// Rollback publishes the laws of revision to again, under a new and higher revision
// and signed anew, with the prices of now. Clients follow it as any other.
func (p *Publisher) Rollback(ctx context.Context, to int64, provenance string) (Published, error) {
	before, err := Latest(ctx, p.store)
	if err != nil {
		return Published{}, err
	}
	return p.again(ctx, to, before.Document.Revision, provenance, fmt.Sprintf("rollback to %d", to))
}

func (p *Publisher) again(ctx context.Context, of, base int64, provenance, note string) (Published, error) {
	old, err := Get(ctx, p.store, of)
	if err != nil {
		return Published{}, err
	}
	d := old.Document
	d.Links = nil
	if provenance != "" {
		d.Provenance = provenance
	}
	return p.Publish(ctx, Draft{Document: d, Base: base, Note: note})
}

// newest is the newest document, zero where there is none.
func (p *Publisher) newest(ctx context.Context) (Published, error) {
	before, err := Latest(ctx, p.store)
	if errors.Is(err, ErrNotFound) {
		return Published{}, nil
	}
	return before, err
}

// conflict says whether other laws than those of revision base are the newest.
func (p *Publisher) conflict(ctx context.Context, before Published, base int64) error {
	if before.Document.Revision == base {
		return nil
	}
	judged := Published{}
	if base > 0 {
		var err error
		if judged, err = Get(ctx, p.store, base); err != nil {
			return err
		}
	}
	if bytes.Equal(lawsOf(before.Document), lawsOf(judged.Document)) {
		return nil
	}
	return fmt.Errorf("%w: revision %d (%s) after %d", ErrConflict, before.Document.Revision, before.Note, base)
}

// lawsOf is all of a document that new prices leave as it is.
func lawsOf(d schema.Document) []byte {
	d = coefficients.Canonical(d)
	d.Revision, d.Previous, d.Created, d.RefreshAfter, d.Links = 0, 0, 0, 0, nil
	text, _ := json.Marshal(d) // it came from JSON
	return text
}

// put dates, signs and stores d, of which Expires is set, as the revision after
// previous.
func (p *Publisher) put(ctx context.Context, d schema.Document, previous int64, note string) (Published, error) {
	now := p.opt.Now()
	d.Version, d.Revision, d.Previous = schema.DocumentVersion, previous+1, previous
	d.Created = now.UnixNano()
	d.RefreshAfter = min(now.Add(p.opt.RefreshAfter).UnixNano(), d.Expires)
	signed, err := coefficients.Seal(d, p.key)
	if err != nil {
		return Published{}, err
	}
	row := Row{Revision: d.Revision, CreatedNanos: d.Created, Payload: string(signed.Payload), Signature: signed.Signature, Note: note}
	err = p.store.Insert(ctx, row)
	if err != nil && !errors.Is(err, ErrTaken) { // the row may be there and only the answer lost
		err = p.store.Insert(ctx, row)
	}
	if err != nil {
		return Published{}, fmt.Errorf("store coefficients %d: %w", d.Revision, err)
	}
	return Published{Document: coefficients.Canonical(d), Signed: signed, Digest: coefficients.Digest(signed.Payload), Note: note}, nil
}
