package live

import (
	"errors"
	"fmt"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Names on the spans of a live fleet.
const (
	Model = "llama-random-27m"
	GPU   = "cpu-1-thread"
	// Tier is where saved slots lie.
	Tier = schema.TierDisk
)

// Config configures a Fleet.
type Config struct {
	Binary  string         // llama-server; "": llama.Find
	Shape   llama.Shape    // of the model; zero: llama.DefaultShape
	Workers []WorkerConfig // default: DefaultWorkers
	// BlockTokens is the tokens of a prefix block; 0: 64.
	BlockTokens int
	// Sessions is how many prefixes a worker holds at once, each in a slot; 0: 1.
	Sessions int
	// Context is the longest prompt, tokens; 0: 4096.
	Context int
}

// WorkerConfig is one server, and the link between it and the tier.
type WorkerConfig struct {
	Name string
	Link string
	Rate float64 // of the link, bytes/s
}

// DefaultWorkers is a worker on a fast link, where fetching pays, and one on a slow
// link, where it does not: computing 1,024 tokens takes as long as their 8.4 MB take
// at 10 to 20 MB/s on an idle machine.
func DefaultWorkers() []WorkerConfig {
	return []WorkerConfig{{"worker-fast", "link-fast", 100e6}, {"worker-slow", "link-slow", 5e6}}
}

func (c *Config) setDefaults() (err error) {
	if c.Binary == "" {
		if c.Binary, err = llama.Find(); err != nil {
			return err
		}
	}
	if c.Shape == (llama.Shape{}) {
		c.Shape = llama.DefaultShape()
	}
	if len(c.Workers) == 0 {
		c.Workers = DefaultWorkers()
	}
	if c.BlockTokens == 0 {
		c.BlockTokens = 64
	}
	if c.Sessions == 0 {
		c.Sessions = 1
	}
	if c.Context == 0 {
		c.Context = 4096
	}
	names := map[string]bool{}
	for _, w := range c.Workers {
		if w.Name == "" || w.Link == "" || names[w.Name] || names[w.Link] {
			return fmt.Errorf("live fleet: worker %q and its link %q need names of their own", w.Name, w.Link)
		}
		names[w.Name], names[w.Link] = true, true
	}
	if c.BlockTokens < 1 || c.Sessions < 1 || c.Context < c.BlockTokens {
		return errors.New("live fleet: block tokens, sessions and context must be positive, and a block must fit into the context")
	}
	return nil
}
