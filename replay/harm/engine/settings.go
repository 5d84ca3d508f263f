package engine

import (
	"errors"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/live"
)

// Settings of a measurement.
type Settings struct {
	Fleet   live.Config
	Traffic live.Traffic // of a block; its seed is replaced
	Pairs   int          // of blocks; even
	WarmUp  int          // blocks before the first pair: the budget earns from them, and no leg runs
	Explore float64      // share of decisions that take another candidate
	Rate    float64      // of decisions of which a path not taken is drawn: more than the budget funds
	Limits  budget.Limits
	Idle    budget.Idle
	Breaker budget.BreakerConfig
	Seed    uint64
}

// Default is the budget, gate and breaker that the replayer has by its own settings,
// beside 2 × 1,800 requests that keep two workers some quarter busy: prompts of 256
// to 512 tokens to a model of half the usual layers, which take some 0.1 s. Blocks
// are short, so that the two of a pair meet the same neighbours on the machine.
func Default() Settings {
	shape := llama.DefaultShape()
	shape.Layers /= 2
	return Settings{
		Fleet: live.Config{
			Shape:       shape,
			Workers:     []live.WorkerConfig{{Name: "worker-fast", Link: "link-fast", Rate: 100e6}, {Name: "worker-slow", Link: "link-slow", Rate: 25e6}},
			BlockTokens: 32, Sessions: 1, Context: 1024,
		},
		Traffic: live.Traffic{
			Requests: 25, Every: 120 * time.Millisecond, Conversations: 4, Turns: 5, System: 4, First: 4, Grow: 1, Generate: 1, Affinity: 1,
		},
		Pairs: 72, WarmUp: 6, Explore: 0.1, Rate: 0.05, Limits: budget.DefaultLimits(), Idle: budget.DefaultIdle(), Breaker: budget.DefaultBreaker(), Seed: 1,
	}
}

func (s *Settings) validate() error {
	if s.Pairs < 4 || s.Pairs%2 != 0 || s.Traffic.Requests < 1 || s.WarmUp < 0 {
		return errors.New("harm: give an even number of pairs, 4 or more, and one request a block or more")
	}
	return nil
}
