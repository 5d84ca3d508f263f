package estimate

import (
	"math"
	"testing"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestControlsThatWaitedForTheirDecisionsOtherLegAreNotUsed: the two legs of one
// decision start together, and the second waits. That is no bias of the path.
func TestControlsThatWaitedForTheirDecisionsOtherLegAreNotUsed(t *testing.T) {
	in, truth := ordinary(31).draw()
	want := only(in, Options{})
	require.True(t, want.Known, want.Why)
	beside := 0
	for i := range in.Legs {
		if l := &in.Legs[i]; l.Kind == schema.LegControl && i%4 == 0 {
			l.Y += 0.5 // it waited
			in.Legs = append(in.Legs, Leg{
				Of: l.Of, Path: schema.PathFetch, Kind: schema.LegRejected, Y: 0.5, ModelDecision: 0.5, ModelReplay: 0.5, Inclusion: 0.25, Batch: l.Batch,
			})
			beside++
		}
	}
	require.Positive(t, beside)
	got := only(in, Options{})
	require.True(t, got.Known, got.Why)
	assert.Equal(t, want.Controls-beside, got.Controls)
	assert.InDelta(t, want.Delta, got.Delta, 0.01)
	assert.True(t, got.Window.Lo < truth && truth < got.Window.Hi)
}

// TestFewControlLegsDoNotLookSure: δ is as uncertain as the rejected legs say,
// although the few control legs happen to agree.
func TestFewControlLegsDoNotLookSure(t *testing.T) {
	w := ordinary(32)
	w.controls = 0.1
	in, _ := w.draw()
	before := only(in, Options{})
	for i := range in.Legs {
		if l := &in.Legs[i]; l.Kind == schema.LegRejected {
			l.Y += 0.3 * float64(i%2) // noise that no control leg met
		}
	}
	after := only(in, Options{})
	require.True(t, before.Known && after.Known)
	assert.Greater(t, after.DeltaSE, 0.15/math.Sqrt(float64(after.Controls))/1.2)
	assert.Less(t, before.DeltaSE, after.DeltaSE/2)
}
