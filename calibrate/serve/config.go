package serve

import (
	"context"
	"crypto/ed25519"
	"errors"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/calibrate/read"
)

// Defaults of Config.
const (
	DefaultPollEvery   = 5 * time.Second
	DefaultPriceEvery  = 5 * time.Second
	DefaultPriceWindow = 20 * time.Second
	DefaultPriceLag    = 10 * time.Second
	DefaultMaxWait     = time.Minute
	DefaultMaxWaiters  = 4096
)

// Demand reads the eligible demand of [from, until), Unix nanoseconds.
type Demand func(ctx context.Context, from, until int64) (read.Eligible, error)

// Config of a server. Store and Keys are needed; other zero values mean the
// defaults.
type Config struct {
	Store  publish.Store
	Keys   []ed25519.PublicKey // any one of which signs what is given out
	Status StatusStore         // nil: statuses are kept in memory only

	Publisher    *publish.Publisher // nil: prices are left as they are
	Demand       Demand             // nil: likewise
	PriceEvery   time.Duration      // at least between two revisions of prices, by the time that RefreshPrices is given
	PriceWindow  time.Duration      // over which demand is averaged
	PriceLag     time.Duration      // between the window's end and now: a request is seen after its first token only
	Coordinators int64              // that share the links; 0: as many as report a status, or services as decide

	PollEvery  time.Duration    // of Run
	MaxWait    time.Duration    // of a long poll
	MaxWaiters int              // long polls and event streams at once; more are answered at once, or refused
	Now        func() time.Time // time.Now
	OnError    func(error)      // what went wrong in Run, once until it changes; nil drops
}

func (c *Config) complete() error {
	if c.Store == nil {
		return errors.New("coefficient server: there is no store")
	}
	if len(c.Keys) == 0 {
		return errors.New("coefficient server: there is no public key, so nothing could be verified: give the key that calibrate signs with")
	}
	for d, def := range map[*time.Duration]time.Duration{
		&c.PriceEvery: DefaultPriceEvery, &c.PriceWindow: DefaultPriceWindow, &c.PriceLag: DefaultPriceLag,
		&c.PollEvery: DefaultPollEvery, &c.MaxWait: DefaultMaxWait,
	} {
		if *d <= 0 {
			*d = def
		}
	}
	if c.MaxWaiters <= 0 {
		c.MaxWaiters = DefaultMaxWaiters
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	return nil
}
