package schema

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The key of a request is stored: the same ids must give the same bytes for good.
func TestRowIDStays(t *testing.T) {
	trace, span := TraceID{1, 2, 3}, SpanID{9, 8, 7}
	require.Equal(t, "5b6dcf5fb251accb9644ccc55c0997d7", NewRowID(trace, span).String())
	require.NotEqual(t, NewRowID(trace, span), NewRowID(trace, SpanID{9, 8, 6}))
	require.NotEqual(t, NewRowID(trace, span), NewRowID(TraceID{1, 2, 4}, span))
	require.Equal(t, NewRowID(trace, span), (&Part{Trace: trace, Span: span}).RowID())
	require.Equal(t, uint64(0x0908070000000000), span.Uint64())
}

func TestMissingIsNotZero(t *testing.T) {
	var s Seconds
	require.False(t, s.OK)
	require.Equal(t, 7.0, s.Or(7))
	require.Equal(t, 0.0, Some(0.0).Or(7))
}

func TestRemainder(t *testing.T) {
	for name, c := range map[string]struct {
		o    Observed
		want Seconds
	}{
		"nothing said":    {Observed{}, Seconds{}},
		"no TTFT":         {Observed{Prefill: Some(1.0)}, Seconds{}},
		"no stage":        {Observed{TTFT: Some(1.0)}, Seconds{}},
		"stages and more": {Observed{TTFT: Some(2.0), GPUQueue: Some(0.5), Prefill: Some(1.0)}, Some(0.5)},
		"stages beyond":   {Observed{TTFT: Some(1.0), ExposedStall: Some(0.75), Restore: Some(0.5)}, Some(-0.25)},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.o.Remainder()) })
	}
}

func TestAlternative(t *testing.T) {
	nan := math.NaN()
	fetch := Candidate{Path: PathFetch, Worker: "a", TTFT: 1}
	half := Candidate{Path: PathFetch, Worker: "a", TTFT: 2}
	local := Candidate{Path: PathRecompute, Worker: "a", TTFT: 3}
	other := Candidate{Path: PathRecompute, Worker: "b", TTFT: 0.5}
	route := Candidate{Path: PathRoute, Worker: "b", TTFT: 0.9}
	dear := Candidate{Path: PathRoute, Worker: "b", TTFT: 0.9, Externality: 5}
	unknown := Candidate{Path: PathRecompute, Worker: "a", TTFT: nan}
	for name, c := range map[string]struct {
		all    []Candidate
		chosen Count
		want   int
	}{
		"no choice":                           {[]Candidate{fetch, local}, Count{}, -1},
		"a choice out of range":               {[]Candidate{fetch}, Some(int64(1)), -1},
		"alone":                               {[]Candidate{fetch}, Some(int64(0)), -1},
		"a fetch against the local recompute": {[]Candidate{fetch, other, local}, Some(int64(0)), 2},
		"a fetch against the best where no local": {[]Candidate{fetch, other}, Some(int64(0)), 1},
		"a route against a recompute":             {[]Candidate{route, fetch, local}, Some(int64(0)), 2},
		"a recompute against the best other":      {[]Candidate{local, half, fetch}, Some(int64(0)), 2},
		"others' delay counts":                    {[]Candidate{local, dear, half}, Some(int64(0)), 2},
		"what was not predicted is none":          {[]Candidate{fetch, unknown}, Some(int64(0)), -1},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decision{Candidates: c.all, Chosen: c.chosen}
			require.Equal(t, c.want, d.Alternative())
		})
	}
}
