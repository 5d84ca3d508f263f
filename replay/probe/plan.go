package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Config is what a probe moves, and what it may cost.
type Config struct {
	Address string        // of the server, host:port
	Token   string        // that it asks for
	Sizes   []int64       // bytes of a transfer
	Flows   []int         // at once
	Rounds  int           // of each size and number of flows
	Seed    uint64        // of the order of rounds: a link that changes must not look like a size that does
	Timeout time.Duration // of a round; 0: 1 min

	MaxBytes int64 // in all; what would be more is refused before anything is moved
	// MaxShare is of the link's rate, over the time that the probe takes: it pauses
	// after each round. Rate is the link's, bytes/s; 0: the best that the probe saw.
	MaxShare float64
	Rate     float64
	// Stop ends the probe with the reason that it gives, unless that is "". It is
	// asked ten times a second. nil: never.
	Stop func() string
	// Progress is told of each round that has ended; nil: nobody is.
	Progress func(done, all int)
}

// round is one size, moved by so many flows at once.
type round struct {
	bytes int64
	flows int
}

// Bytes is what the whole probe moves.
func (c *Config) Bytes() int64 {
	var sum int64
	for _, size := range c.Sizes {
		for _, flows := range c.Flows {
			sum += size * int64(flows) * int64(c.Rounds)
		}
	}
	return sum
}

// Validate says what is wrong, and what to give instead.
func (c *Config) Validate() error {
	if len(c.Sizes) == 0 || len(c.Flows) == 0 || c.Rounds < 1 {
		return errors.New("probe: no sizes, flows or rounds: give at least one of each")
	}
	for _, n := range c.Sizes {
		if n < 1 || n > 1<<40 {
			return fmt.Errorf("probe: a size of %d bytes: give 1 B to 1 TiB", n)
		}
	}
	for _, n := range c.Flows {
		if n < 1 || n > 1024 {
			return fmt.Errorf("probe: %d flows at once: give 1 to 1024", n)
		}
	}
	switch total := c.Bytes(); {
	case total > c.MaxBytes:
		return fmt.Errorf("probe: it would move %d bytes and may move %d: give fewer or smaller sizes, flows or rounds, or a larger budget", total, c.MaxBytes)
	case !(c.MaxShare > 0 && c.MaxShare <= 1):
		return fmt.Errorf("probe: a share of %v of the link: give one above 0 and up to 1", c.MaxShare)
	case !(c.Rate >= 0):
		return fmt.Errorf("probe: a link of %v bytes/s", c.Rate)
	}
	return nil
}

// rounds are those of the probe, in an order that the seed gives.
func (c *Config) rounds() (out []round) {
	for _, size := range c.Sizes {
		for _, flows := range c.Flows {
			for range c.Rounds {
				out = append(out, round{size, flows})
			}
		}
	}
	order := rand.New(rand.NewPCG(c.Seed, 1))
	order.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// pause is how long to wait after a round that moved so many bytes in so long, so
// that the link is used by no more than MaxShare of its rate.
func (c *Config) pause(bytes int64, took time.Duration, best float64) time.Duration {
	rate := c.Rate
	if rate <= 0 {
		rate = best
	}
	if rate <= 0 || c.MaxShare >= 1 {
		return 0
	}
	return max(0, time.Duration(float64(bytes)/(c.MaxShare*rate)*1e9)-took)
}
