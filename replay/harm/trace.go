package harm

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/internal/publicdata"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
)

// busySpeedUp is how much faster than the trace its requests come on the busy link,
// as in the demo.
const busySpeedUp = 26.0

// Demo is the demo's fleet on one of its links, "busy" or "calm": the first limit
// requests of the public conversation trace, and replays that may take share of
// production's cost.
func Demo(link string, limit int, share float64) (Settings, error) {
	rows, err := publicdata.Conversation()
	if err != nil {
		return Settings{}, fmt.Errorf("read the trace: %w", err)
	}
	points, err := publicdata.Series("MCv")
	if err != nil {
		return Settings{}, fmt.Errorf("read the prefill ladder: %w", err)
	}
	s := Settings{Share: share, Explore: 0.05, Rate: 0.16, Control: 0.05, Pool: true, Idle: budget.DefaultIdle()}
	for _, r := range rows[:min(limit, len(rows))] {
		s.Requests = append(s.Requests, fleet.Request{
			At: float64(r.Millis) / 1e3, PromptTokens: r.InputTokens, OutputTokens: r.OutputTokens, Blocks: r.Blocks,
		})
	}
	var ladder []fleet.Point
	for _, r := range points {
		ladder = append(ladder, fleet.Point{Tokens: r.Tokens, Seconds: r.PrefillMeasured})
	}
	switch link {
	case "busy":
		s.Fleet = func(seed uint64) fleet.Config {
			c := fleet.Busy(seed, ladder)
			c.SpeedUp = busySpeedUp
			return c
		}
	case "calm":
		s.Fleet = func(seed uint64) fleet.Config { return fleet.Calm(seed, ladder) }
	default:
		return Settings{}, fmt.Errorf("link %q: say busy or calm", link)
	}
	return s, nil
}
