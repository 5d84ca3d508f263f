package app

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/internal/publicdata"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
)

// Scenarios of the simulated fleet: the same system, with the requests at their
// own pace and busySpeedUp times as fast.
const (
	ScenarioCalm = "calm"
	ScenarioBusy = "busy"
)

// Scenarios lists them.
func Scenarios() []string { return []string{ScenarioCalm, ScenarioBusy} }

// world is the public data in the simulator's types.
type world struct {
	requests []fleet.Request
	ladder   []fleet.Point
}

// loadWorld reads the embedded trace, cut to its first limit requests where limit
// is above 0, and the measured prefill ladder: TTFT less the transfer within it.
func loadWorld(limit int) (world, error) {
	trace, err := publicdata.Conversation()
	if err != nil {
		return world{}, err
	}
	if limit > 0 && limit < len(trace) {
		trace = trace[:limit]
	}
	w := world{requests: make([]fleet.Request, len(trace))}
	for i, r := range trace {
		w.requests[i] = fleet.Request{
			At: float64(r.Millis) / 1e3, PromptTokens: r.InputTokens, OutputTokens: r.OutputTokens, Blocks: r.Blocks,
		}
	}
	rows, err := publicdata.Series("MCv")
	if err != nil {
		return world{}, err
	}
	for _, r := range rows {
		w.ladder = append(w.ladder, fleet.Point{Tokens: r.Tokens, Seconds: r.PrefillMeasured})
	}
	return w, nil
}

// halves cuts the trace in two: what is fitted on, and what the arms are
// compared on. Each begins at its own second 0.
func (w world) halves() (first, second []fleet.Request) {
	mid := len(w.requests) / 2
	first, second = w.requests[:mid], append([]fleet.Request(nil), w.requests[mid:]...)
	if len(second) > 0 {
		start := second[0].At
		for i := range second {
			second[i].At -= start
		}
	}
	return first, second
}

// busySpeedUp is how much faster than they came the requests arrive on the busy
// link. The first half of the trace, from empty caches, then asks for 0.88 of the
// link's capacity if every prefix is fetched (0.85 at 25 times, 0.94 at 28; means
// of 8 seeds).
const busySpeedUp = 26

// config is the fleet of a scenario.
func (w world) config(scenario, policy string, seed uint64) (fleet.Config, error) {
	var c fleet.Config
	switch scenario {
	case ScenarioCalm:
		c = fleet.Calm(seed, w.ladder)
	case ScenarioBusy:
		c = fleet.Busy(seed, w.ladder)
		c.SpeedUp = busySpeedUp
	default:
		return c, fmt.Errorf("no scenario %q: choose one of %v", scenario, Scenarios())
	}
	c.Policy = policy
	return c, nil
}
