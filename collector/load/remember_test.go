package load

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLastSpansAreRemembered: the last n of them are, and of those before the
// last 2n none.
func TestTheLastSpansAreRemembered(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 100, 1000} {
		c := newContents(n)
		for i := range uint64(5*n + 1) {
			require.False(t, c.differs(traceOf(i), spanOf(i), uint32(i)))
			require.False(t, c.differs(traceOf(i), spanOf(i), uint32(i)), "the same again is no conflict")
			for back := range min(uint64(n), i+1) {
				require.True(t, c.differs(traceOf(i-back), spanOf(i-back), uint32(i-back)+1), "n %d: %d spans ago", n, back)
			}
			if i >= uint64(2*n) && n <= 7 {
				require.False(t, knows(c, i-uint64(2*n)), "n %d", n)
			}
		}
	}
	none := newContents(0)
	require.False(t, none.differs(traceOf(1), spanOf(1), 1))
	require.False(t, none.differs(traceOf(1), spanOf(1), 2))
}

// knows asks a copy, for asking remembers.
func knows(c *contents, i uint64) bool {
	other := *c
	other.now, other.old = append([]said(nil), c.now...), append([]said(nil), c.old...)
	return other.differs(traceOf(i), spanOf(i), uint32(i)+1)
}
