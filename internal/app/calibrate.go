package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
	"github.com/kvwhatif/kvwhatif/calibrate/gate"
	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/calibrate/read"
	"github.com/kvwhatif/kvwhatif/schema"
)

// ErrNotPublished says that calibrate kept the champion; the reason goes before it.
var ErrNotPublished = errors.New("nothing was published")

// Stretch is a range of time in which some requests were decided. Each stretch is
// cut by itself: its last share is held out.
type Stretch struct {
	From, Until time.Time
	Filter      read.Filter // whose requests
}

// CalibrateOptions is one run of the calibrator.
type CalibrateOptions struct {
	Stretches []Stretch // none: the settings' window up to now
	Policies  []string  // whose requests, where there are no stretches; none: everybody's
	Services  []string  // likewise, by service.name of who decided
	DryRun    bool      // fit and judge, but publish nothing
	Probes    []string  // files of `kvwhatif probe run --save`, whose transfers of the window are fitted too
}

// Calibrated is what a run of the calibrator came to.
type Calibrated struct {
	Published bool
	DryRun    bool
	Revision  int64 // published, or that of the champion that stays; 0: there is none
	Reason    string
	Document  schema.Document // the challenger
	Champion  *schema.Document
	Gate      gate.Verdict
	Drift     []gate.Drifted // of the champion, by path and link; those with too few requests are not in it
	Skipped   []fit.Skipped
	Requests  int64 // that the fit saw
	HeldOut   int   // that it was judged on
}

// keyFile is where the private key of a directory is.
const keyFile = "calibrate.pem"

// keyPath is where the signing key is.
func (s *Settings) keyPath() string { return cmp.Or(s.Calibrate.Key, filepath.Join(s.Dir, keyFile)) }

// mayPublish refuses to publish with a key that would have to be made while
// documents of another are in force: no coordinator would take what it signs.
func (s *Settings) mayPublish(ctx context.Context, conn driver.Conn) error {
	path := s.keyPath()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong with it is told when it is read
	}
	latest, err := publish.Latest(ctx, publish.NewClickHouse(conn))
	switch {
	case errors.Is(err, publish.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the signing key %s is missing, and another signed revision %d: put it back, name it with --key, or make a new one by `openssl genpkey -algorithm ed25519 -out %s` and give serve and coordinators its public half", path, latest.Document.Revision, path)
}

// publisher signs with the key of the settings, which it makes if it is missing.
func (s *Settings) publisher(conn driver.Conn) (*publish.Publisher, error) {
	path := s.keyPath()
	if s.Calibrate.Key == "" {
		if err := os.MkdirAll(s.Dir, 0o750); err != nil {
			return nil, fmt.Errorf("directory of the signing key: %w", err)
		}
	}
	key, err := publish.LoadOrCreateKey(path)
	if err != nil {
		return nil, err
	}
	public := strings.TrimSuffix(path, filepath.Ext(path)) + ".pub"
	if err := publish.WritePublicKey(public, key.Public().(ed25519.PublicKey)); err != nil {
		return nil, err
	}
	life := time.Duration(s.Calibrate.Expires)
	return publish.New(publish.NewClickHouse(conn), key, publish.Options{RefreshAfter: life / 24, Lifetime: life}), nil
}

// Calibrate runs the calibrator once against the database of the settings, or that
// of a running `kvwhatif up` on their directory.
func Calibrate(ctx context.Context, s *Settings, o CalibrateOptions) (*Calibrated, error) {
	conn, _, err := openTables(ctx, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var p *publish.Publisher // a dry run needs no key
	if !o.DryRun {
		if err := s.mayPublish(ctx, conn); err != nil {
			return nil, err
		}
		if p, err = s.publisher(conn); err != nil {
			return nil, err
		}
	}
	return s.calibrate(ctx, conn, p, o)
}

// calibrate fits a challenger, holds it against the champion on later requests,
// and publishes it if it is better. Nothing published is no error here.
func (s *Settings) calibrate(ctx context.Context, conn driver.Conn, p *publish.Publisher, o CalibrateOptions) (*Calibrated, error) {
	data, err := s.data(ctx, conn, o)
	if err != nil {
		return nil, err
	}
	laws, skipped := fit.All(data.fitted, s.Calibrate.MinN)
	out := &Calibrated{DryRun: o.DryRun, Skipped: skipped, Requests: data.fitted.Requests, HeldOut: len(data.held)}
	base := int64(0)
	switch champion, err := publish.Latest(ctx, publish.NewClickHouse(conn)); {
	case err == nil:
		out.Champion, base = &champion.Document, champion.Document.Revision
	case !errors.Is(err, publish.ErrNotFound):
		return nil, err
	}
	out.Revision = base
	if out.Requests == 0 {
		out.Reason = "no request with a decision lies in the window: see that spans arrive, or widen calibrate.window"
		return out, nil
	}
	out.Document = publish.Assemble(laws, out.Champion, provenance())
	cases := gate.Cases(data.held, out.Champion, &out.Document)
	out.Gate = gate.Judge(cases, out.Champion != nil, gate.DefaultRules)
	out.Drift = gate.Watch(cases)
	out.Reason = out.Gate.Reason
	switch {
	case o.DryRun:
		return out, nil
	case out.Gate.Publish:
		return out, out.publish(ctx, p, base)
	case base > 0: // the champion was tried again and stays: its laws live on
		renewed, err := p.Renew(ctx, base)
		if err != nil {
			return nil, fmt.Errorf("renew coefficients: %w", err)
		}
		out.Revision = renewed.Document.Revision
	}
	return out, nil
}

func (c *Calibrated) publish(ctx context.Context, p *publish.Publisher, base int64) error {
	done, err := p.Publish(ctx, publish.Draft{Document: c.Document, Base: base, Note: c.Reason})
	if err != nil {
		return fmt.Errorf("publish coefficients: %w", err)
	}
	c.Published, c.Revision, c.Document = true, done.Document.Revision, done.Document
	return nil
}

// calibrationData is what a fit sees, and what it is judged on: later requests.
type calibrationData struct {
	fitted fit.Observations
	held   []gate.Request
}

func (s *Settings) data(ctx context.Context, conn driver.Conn, o CalibrateOptions) (*calibrationData, error) {
	stretches := o.Stretches
	if len(stretches) == 0 {
		now := time.Now()
		stretches = []Stretch{{
			From: now.Add(-time.Duration(s.Calibrate.Window)), Until: now,
			Filter: read.Filter{Policies: o.Policies, Services: o.Services},
		}}
	}
	probes, err := readProbes(o.Probes)
	if err != nil {
		return nil, err
	}
	out := &calibrationData{}
	for _, st := range stretches {
		cut, n, err := read.Cut(ctx, conn, st.Filter, st.From.UnixNano(), st.Until.UnixNano(), 1-s.Calibrate.Holdout)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		obs, err := read.Observations(ctx, conn, st.Filter, st.From.UnixNano(), cut)
		if err != nil {
			return nil, err
		}
		addProbes(&obs, st.Until.UnixNano(), probes)
		held, err := read.HeldOut(ctx, conn, st.Filter, cut, st.Until.UnixNano())
		if err != nil {
			return nil, err
		}
		out.add(obs, held)
	}
	if err := checkUsed(probes); err != nil && out.fitted.UntilNanos > 0 {
		return nil, err
	}
	slices.SortFunc(out.held, func(a, b gate.Request) int { return cmp.Compare(a.AtNanos, b.AtNanos) })
	return out, nil
}

// add puts the observations of another stretch on the clock of the first.
func (d *calibrationData) add(obs fit.Observations, held []gate.Request) {
	d.held = append(d.held, held...)
	f := &d.fitted
	if f.UntilNanos == 0 {
		*f = obs
		return
	}
	shift := float64(obs.FromNanos-f.FromNanos) / 1e9
	for i := range obs.Transfer {
		obs.Transfer[i].Start += shift
		obs.Transfer[i].End += shift
	}
	f.UntilNanos = max(f.UntilNanos, obs.UntilNanos)
	f.Requests += obs.Requests
	f.Prefill, f.Transfer = append(f.Prefill, obs.Prefill...), append(f.Transfer, obs.Transfer...)
	f.Restore, f.Queue = append(f.Restore, obs.Restore...), append(f.Queue, obs.Queue...)
	f.Stall = append(f.Stall, obs.Stall...)
}

// provenance says what made a document.
func provenance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("kvwhatif %s calibrate on %s", Version, host)
}
