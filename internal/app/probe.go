package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
	"github.com/kvwhatif/kvwhatif/replay/probe"
	"github.com/kvwhatif/kvwhatif/schema"
)

// probeVersion is of the file that a probe writes.
const probeVersion = 1

// ProbeOptions is one run of the probe.
type ProbeOptions struct {
	probe.Config
	Tier schema.Tier // that a fetch over the link comes from
	Link string      // as candidates name it
	Pair string      // source>worker; "": not named
	Kill string      // file whose presence ends the probe; "" for none
	Save string      // file that the observations are written to, for calibrate; "" for none
}

// ProbeServer bounds what a server gives to probes.
type ProbeServer = probe.ServerConfig

// Probed is what a probe saw, and the law that fits it.
type Probed struct {
	Version      int                 `json:"kvwhatif_probe"`
	Tier         string              `json:"tier"`
	Link         string              `json:"link"`
	Pair         string              `json:"pair,omitempty"`
	Bytes        int64               `json:"bytes"` // moved
	Cut          string              `json:"cut_short,omitempty"`
	Fit          *schema.TransferFit `json:"fit,omitempty"`
	Unfitted     string              `json:"not_fitted,omitempty"` // why there is no fit
	Intervals    map[string]Spread   `json:"intervals,omitempty"`
	Observations []probe.Observation `json:"observations"`

	used int // by a fit
}

// Spread is a value and its 95 % interval.
type Spread struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// ServeProbe gives bytes to probes until ctx ends.
func ServeProbe(ctx context.Context, address string, cfg ProbeServer, announce func(address string)) error {
	if host, _, err := net.SplitHostPort(address); err == nil && cfg.Token == "" && !loopback(host) {
		return fmt.Errorf("probe serve: %s can be reached from outside and there is no token, so anybody could fill the link: set KVWHATIF_PROBE_TOKEN, here and for `probe run`", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("probe serve: %w", err)
	}
	announce(l.Addr().String())
	return probe.NewServer(cfg).Serve(ctx, l)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// RunProbe measures a link, fits the law of transfers to what it saw, and writes
// the observations where they are asked for. A probe that is cut short gives what
// it saw, and the error.
func RunProbe(ctx context.Context, o ProbeOptions) (*Probed, error) {
	switch {
	case o.Link == "":
		return nil, errors.New("probe: the link has no name: give --link, as candidates name it")
	case o.Tier == schema.TierNone:
		return nil, errors.New("probe: no tier: give --tier cpu, disk, object or peer, that fetches over the link come from")
	}
	if o.Kill != "" {
		o.Stop = func() string {
			if _, err := os.Stat(o.Kill); !errors.Is(err, fs.ErrNotExist) {
				return "the file " + o.Kill + " is there"
			}
			return ""
		}
	}
	seen, err := probe.Run(ctx, o.Config)
	if len(seen) == 0 {
		return nil, err
	}
	out := newProbed(o, seen, err)
	if o.Save != "" {
		err = errors.Join(err, out.save(o.Save))
	}
	return out, err
}

func newProbed(o ProbeOptions, seen []probe.Observation, cut error) *Probed {
	p := &Probed{Version: probeVersion, Tier: o.Tier.String(), Link: o.Link, Pair: o.Pair, Observations: seen}
	if cut != nil {
		p.Cut = cut.Error()
	}
	for _, s := range seen {
		p.Bytes += s.Bytes
	}
	fits, skipped := fit.Transfers(p.since(seen[0].StartNanos, math.MinInt64, math.MaxInt64), 10)
	if len(fits) != 1 {
		p.Unfitted = "no transfer could be fitted"
		if len(skipped) > 0 {
			p.Unfitted = skipped[0].Reason
		}
		return p
	}
	p.Fit = &fits[0]
	law, c := p.Fit.Law, p.Fit.Quality.Covariance
	p.Intervals = map[string]Spread{}
	for i, v := range []struct {
		name  string
		value float64
	}{{"t0", law.T0}, {"cold", law.Cold}, {"bend", law.Bend}, {"b", law.Link.B}, {"b1", law.Link.B1}, {"gamma", law.Link.Gamma}} {
		half := 1.96 * math.Sqrt(max(0, c[i*7]))
		p.Intervals[v.name] = Spread{v.value, v.value - half, v.value + half}
	}
	return p
}

// since gives the observations of [from, until) (Unix nanoseconds) to a fit, in
// seconds after base.
func (p *Probed) since(base, from, until int64) (out []fit.TransferObs) {
	for _, o := range p.Observations {
		if o.StartNanos < from || o.StartNanos >= until {
			continue
		}
		start := float64(o.StartNanos-base) / 1e9
		out = append(out, fit.TransferObs{
			Tier: p.Tier, Link: p.Link, Pair: p.Pair, Start: start, End: start + o.Seconds, Queue: o.FirstByte, Bytes: float64(o.Bytes),
		})
	}
	return out
}

func (p *Probed) save(path string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("write the probe's observations: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "probe-*")
	if err != nil {
		return fmt.Errorf("write the probe's observations: %w", err)
	}
	defer os.Remove(f.Name()) // gone already where all went well
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the probe's observations: %w", err)
	}
	return nil
}

// readProbes reads files that probes wrote.
func readProbes(paths []string) (out []*Probed, err error) {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a probe: %w", err)
		}
		p := &Probed{}
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("read probe %s: %w", path, err)
		}
		if tier, ok := schema.ParseTier(p.Tier); p.Version != probeVersion || p.Link == "" || !ok || tier == schema.TierNone {
			return nil, fmt.Errorf("read probe %s: version %d, tier %q, link %q: this is no file of `kvwhatif probe run --save`", path, p.Version, p.Tier, p.Link)
		}
		for i := range p.Observations {
			if err := p.Observations[i].Check(); err != nil {
				return nil, fmt.Errorf("read probe %s: observation %d: %w", path, i, err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// addProbes puts what probes saw from the start of a fit's window until until (Unix
// nanoseconds) into it. That may be after the part that requests are fitted in: no
// request that is held out is told of by a probe.
func addProbes(obs *fit.Observations, until int64, probes []*Probed) {
	for _, p := range probes {
		seen := p.since(obs.FromNanos, obs.FromNanos, until)
		p.used += len(seen)
		obs.Transfer = append(obs.Transfer, seen...)
	}
}

// checkUsed says which probe was named for nothing.
func checkUsed(probes []*Probed) error {
	for _, p := range probes {
		if p.used == 0 {
			return fmt.Errorf("the probe of link %s has no transfer in the window: probe again, or widen calibrate.window", p.Link)
		}
	}
	return nil
}
