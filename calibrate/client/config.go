package client

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/secure"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Defaults of Config.
const (
	DefaultGrace       = 15 * time.Minute
	DefaultWait        = 30 * time.Second
	DefaultMinPoll     = 5 * time.Second
	DefaultMaxBackoff  = time.Minute
	DefaultTieFraction = 0.02
)

// Config says where the documents come from and how ties are broken. Its zero
// values mean the defaults; Fallback and a public key have none.
type Config struct {
	URL        string              // of the coefficient server, without a path; "" follows nobody
	PublicKeys []ed25519.PublicKey // any one of which signs; needed with URL or CacheFile
	CacheFile  string              // last good document; "" keeps none
	Instance   string              // name of this coordinator in POST /v1/status
	Fallback   Fallback            // laws for when no document answers

	Grace        time.Duration // EXPIRED to FALLBACK
	Wait         time.Duration // long poll; whole seconds
	MinPoll      time.Duration // between polls of a server that does not wait
	MaxBackoff   time.Duration // between polls of a server that is away
	TieFraction  float64       // candidates this close to the best, as a share of its TTFT, are tied; negative: none
	Explore      float64       // share of requests that choose evenly among all feasible, 0 to 1
	Salt         uint64        // of the coin of ties and exploration; keep it apart from the sampler's
	DecodeWeight float64       // weight of a second of TPOT against one of TTFT; 0 leaves decodes out

	CAFile    string // PEM file of the server's authorities; "" trusts the system's
	CertFile  string // PEM file of this client's certificate, for servers that ask for one
	KeyFile   string // PEM file of its private key
	Token     string // bearer token, for servers that ask for one
	TokenFile string // file of the token instead, which may change

	HTTPClient *http.Client // nil: one of its own, without a total timeout; else CAFile, CertFile and KeyFile are its own affair
	OnError    func(error)  // called from the polling goroutine; nil drops
}

// Fallback is the laws that decide where no fitted one answers. Guess on the slow
// side for the link: a recompute that was not needed harms nobody else.
type Fallback struct {
	Prefill  cost.Prefill
	Transfer cost.Transfer
	Restore  cost.Restore
}

func (c *Config) complete() error {
	p := c.Fallback.Prefill
	if !(p.C0+p.C1+p.C2 > 0) {
		return fmt.Errorf("coefficient client: Fallback.Prefill is missing: give the law to decide by when there is no document")
	}
	if !(c.Fallback.Transfer.Link.B > 0) {
		return fmt.Errorf("coefficient client: Fallback.Transfer.Link.B is missing: give a bandwidth in bytes/s to decide by when there is no document")
	}
	if (c.URL != "" || c.CacheFile != "") && len(c.PublicKeys) == 0 {
		return fmt.Errorf("coefficient client: PublicKeys is empty: no document could be verified; get the key from GET /v1/keys and compare it with the publisher's")
	}
	if c.URL != "" {
		if u, err := url.Parse(c.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("coefficient client: URL %q is not http://host:port or https://host:port", c.URL)
		}
	}
	if !(c.Explore >= 0 && c.Explore <= 1) {
		return fmt.Errorf("coefficient client: Explore %v is not 0 to 1", c.Explore)
	}
	c.setDefaults()
	return c.connect()
}

// connect makes the client that TLS and the token need.
func (c *Config) connect() error {
	token, err := secure.OpenSource(c.Token, c.TokenFile)
	if err != nil {
		return fmt.Errorf("coefficient client: Token or TokenFile: %w", err)
	}
	if token != nil && c.URL != "" && secure.InTheClear(c.URL) {
		return fmt.Errorf("coefficient client: the token would be sent to %s for everybody on the way to read: use https", c.URL)
	}
	if c.HTTPClient == nil {
		encrypted, err := secure.ClientFiles{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile}.Config()
		if err != nil {
			return fmt.Errorf("coefficient client: CAFile, CertFile or KeyFile: %w", err)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = encrypted
		c.HTTPClient = &http.Client{Transport: transport}
	}
	if u, err := url.Parse(c.URL); token != nil && err == nil {
		shows := *c.HTTPClient
		shows.Transport = secure.Transport{Base: shows.Transport, Source: token, Scheme: u.Scheme, Host: u.Host}
		c.HTTPClient = &shows
	}
	return nil
}

func (c *Config) setDefaults() {
	setDuration(&c.Grace, DefaultGrace)
	setDuration(&c.Wait, DefaultWait)
	setDuration(&c.MinPoll, DefaultMinPoll)
	setDuration(&c.MaxBackoff, DefaultMaxBackoff)
	if c.TieFraction == 0 {
		c.TieFraction = DefaultTieFraction
	}
	c.TieFraction = max(0, c.TieFraction)
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}
