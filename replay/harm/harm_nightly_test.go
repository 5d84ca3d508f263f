//go:build nightly

package harm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestHarm holds the upper bound of the ratio on both links, over the first half of
// the trace and sixty seeds.
func TestHarm(t *testing.T) {
	for _, link := range []string{"busy", "calm"} {
		assert.LessOrEqual(t, measure(t, link, 12031, 60, 0.01).Upper, limit, link)
	}
}
