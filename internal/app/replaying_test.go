package app

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// TestLegsOfADecisionStartApart: neither leg waits for the other, and each kind is
// first as often.
func TestLegsOfADecisionStartApart(t *testing.T) {
	r := &simReplay{traffic: &traffic{}}
	first := 0
	for n := range uint64(2000) {
		control := execute.Leg{Kind: schema.LegControl, DecidedNanos: r.traffic.nanos(7)}
		binary.BigEndian.PutUint64(control.Of[8:], n)
		binary.BigEndian.PutUint64(control.OfSpan[:], n+1)
		rejected := control
		rejected.Kind = schema.LegRejected
		c, o := r.start(&control), r.start(&rejected)
		require.InDelta(t, legGap, math.Abs(c-o), 1e-6)
		require.InDelta(t, 7+replayDelay, min(c, o), 1e-6)
		if c < o {
			first++
		}
	}
	require.InDelta(t, 1000, first, 100)
}
