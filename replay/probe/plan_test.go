package probe

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPauseKeepsTheShare(t *testing.T) {
	for _, c := range []struct {
		share, rate, best float64
		bytes             int64
		took, want        time.Duration
	}{
		{0.1, 1000, 0, 1000, time.Second, 9 * time.Second},
		{0.1, 1000, 0, 100, 2 * time.Second, 0},        // the link was slower than it is said to be
		{0.5, 0, 1000, 1000, time.Second, time.Second}, // by what was seen
		{1, 1000, 0, 1000, time.Second, 0},
		{0.1, 0, 0, 1000, time.Second, 0},
	} {
		cfg := Config{MaxShare: c.share, Rate: c.rate}
		assert.Equal(t, c.want, cfg.pause(c.bytes, c.took, c.best), "%+v", c)
	}
}

func TestRoundsAreShuffledBySeed(t *testing.T) {
	cfg := Config{Sizes: []int64{1, 2, 3}, Flows: []int{1, 2}, Rounds: 5, Seed: 1}
	one := cfg.rounds()
	assert.Len(t, one, 30)
	assert.Equal(t, one, cfg.rounds())
	assert.False(t, slices.IsSortedFunc(one, func(a, b round) int { return int(a.bytes - b.bytes) }))
	cfg.Seed = 2
	assert.NotEqual(t, one, cfg.rounds())
	assert.ElementsMatch(t, one, cfg.rounds())
}
