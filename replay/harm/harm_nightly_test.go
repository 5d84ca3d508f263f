//go:build nightly

package harm

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kvwhatif/kvwhatif/replay/budget"
)

// TestHarm holds the upper bound of the ratio on both links, over the first half of
// the trace and sixty seeds, behind the gate that the replayer has by its settings;
// and prints what it would be without one.
func TestHarm(t *testing.T) {
	for _, link := range []string{"busy", "calm"} {
		measure(t, link, 12031, 60, budget.Idle{})
		assert.LessOrEqual(t, measure(t, link, 12031, 60, budget.DefaultIdle()).Upper, limit, link)
	}
}
