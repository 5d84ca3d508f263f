package client

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// State is how far the document may be trusted.
type State uint8

// The states, in the order in which an unanswered client passes through them.
const (
	Fresh    State = 1 // before its refresh-after
	Stale    State = 2 // after it; in use
	Expired  State = 3 // after its expiry; laws in use, prices not
	FallBack State = 4 // no document: Config.Fallback decides
)

// String gives FRESH, STALE, EXPIRED or FALLBACK.
func (s State) String() string {
	if s < Fresh || s > FallBack {
		return ""
	}
	return [...]string{"", "FRESH", "STALE", "EXPIRED", "FALLBACK"}[s]
}

// Client follows the coefficient server and decides. Make one with New.
type Client struct {
	cfg   Config
	laws  atomic.Pointer[laws] // what Decide reads
	start sync.Once
	done  chan struct{}

	mu      sync.Mutex // guards what follows, and the order of stores to laws
	keys    names
	held    held
	timer   *time.Timer
	lastErr error
}

// held is the document in use. Its revision is a floor also after it expires.
type held struct {
	document *schema.Document
	digest   string
}

// New makes a client and loads the last good document from disk, if there is one
// that verifies. A cache that does not is reported to OnError, not returned:
// a coordinator must start without it.
func New(cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, keys: newNames(), done: make(chan struct{})}
	c.recompile()
	if err := c.loadCache(); err != nil {
		c.report(err)
	}
	return c, nil
}

// Snapshot is what the client holds at one moment.
type Snapshot struct {
	State    State
	Revision int64            // 0 under FALLBACK
	Digest   string           // of the document
	Document *schema.Document // do not change it; nil where there never was one
	Err      error            // of the last attempt to get one; nil if it succeeded
}

// Snapshot says what decides now.
func (c *Client) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.laws.Load()
	return Snapshot{State: l.state, Revision: l.revision, Digest: c.held.digest, Document: c.held.document, Err: c.lastErr}
}

// Apply verifies s and decides by it from now on: what a poll does with an
// answer, for a coordinator that gets documents in another way. A document that
// does not verify, is expired, or is not newer than the one held is refused and
// changes nothing; the one held already is no error.
func (c *Client) Apply(s schema.SignedDocument) error {
	d, err := coefficients.Open(s, c.cfg.PublicKeys...)
	if err != nil {
		return err
	}
	return c.apply(&d, coefficients.Digest(s.Payload))
}

func (c *Client) apply(d *schema.Document, digest string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.held; old.document != nil {
		switch {
		case d.Revision == old.document.Revision && digest == old.digest:
			return nil
		case d.Revision <= old.document.Revision:
			return fmt.Errorf("revision %d is refused: revision %d is held already, and revisions only grow", d.Revision, old.document.Revision)
		}
	}
	if now := time.Now().UnixNano(); d.Expires <= now {
		return fmt.Errorf("revision %d is refused: it expired at %s", d.Revision, time.Unix(0, d.Expires).UTC().Format(time.RFC3339))
	}
	c.held = held{document: d, digest: digest}
	c.recompileLocked()
	return nil
}

// stateAt is the state of the held document at now, and when it changes next;
// the zero time where it does not.
func (c *Client) stateAt(now time.Time) (State, time.Time) {
	d := c.held.document
	if d == nil {
		return FallBack, time.Time{}
	}
	ends := [...]time.Time{
		time.Unix(0, d.RefreshAfter),
		time.Unix(0, d.Expires),
		time.Unix(0, d.Expires).Add(c.cfg.Grace),
	}
	for i, end := range ends {
		if now.Before(end) {
			return Fresh + State(i), end
		}
	}
	return FallBack, time.Time{}
}

func (c *Client) recompile() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recompileLocked()
}

// recompileLocked makes what Decide reads out of the held document, and sets the
// alarm for the next change of state, which needs no goroutine of ours.
func (c *Client) recompileLocked() {
	now := time.Now()
	state, next := c.stateAt(now)
	c.laws.Store(compile(c.held.document, state, &c.keys, &c.cfg))
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if !next.IsZero() {
		c.timer = time.AfterFunc(next.Sub(now), c.recompile)
	}
}

func (c *Client) report(err error) {
	c.mu.Lock()
	c.lastErr = err
	c.mu.Unlock()
	if err != nil {
		c.cfg.OnError(err)
	}
}
