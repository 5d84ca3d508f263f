package corpus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/schema"
)

var base = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// Every span of every request is taken, is another row, and has the ids, the
// times and the number of candidates that it was meant to have.
func TestEverySpanIsAPartOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		shape       Shape
		least, most float64 // bytes a span
	}{
		{Plain, 280, 380}, {Contract, 1800, 2300}, {Shape{Name: "wide", Candidates: 10}, 2600, 3300},
		{Shape{Name: "blocks", Candidates: 3, Blocks: 64}, 2600, 3300},
	} {
		cfg := Config{Shape: c.shape, Spans: 20, Seed: 3, Base: base, Step: time.Millisecond}
		r, err := New(cfg)
		require.NoError(t, err)
		t.Logf("%s: %.0f bytes a span", c.shape.Name, r.SpanBytes())
		require.Greater(t, r.SpanBytes(), c.least, c.shape.Name)
		require.Less(t, r.SpanBytes(), c.most, c.shape.Name)
		seen := map[schema.TraceID]bool{}
		var out extract.Result
		for n := range uint64(2 * variants) {
			body := r.Append(nil, n)
			require.NoError(t, extract.Extract(body, extract.DefaultLimits(base.UnixNano()), &out))
			require.Empty(t, out.Rejected, c.shape.Name)
			require.Len(t, out.Parts, cfg.Spans)
			for i, p := range out.Parts {
				trace, span := r.IDs(n, i)
				require.Equal(t, trace, p.Trace)
				require.Equal(t, span, p.Span)
				require.Equal(t, base.Add(time.Duration(int(n)*cfg.Spans+i)*cfg.Step).UnixNano(), p.StartNanos)
				require.Greater(t, p.EndNanos, p.StartNanos)
				require.Len(t, p.Decision.Candidates, c.shape.Candidates)
				require.Len(t, p.Decision.PrefixBlocks, c.shape.Blocks)
				require.False(t, seen[p.Trace])
				seen[p.Trace] = true
			}
		}
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	make := func(seed uint64) []byte {
		r, err := New(Config{Shape: Contract, Spans: 4, Seed: seed, Base: base})
		require.NoError(t, err)
		return r.Append(nil, 11)
	}
	require.Equal(t, make(1), make(1))
	require.NotEqual(t, make(1), make(2))
}

func TestAppendAllocatesNothing(t *testing.T) {
	r, err := New(Config{Shape: Plain, Spans: 64, Base: base})
	require.NoError(t, err)
	buffer := r.Append(nil, 0)
	require.Zero(t, testing.AllocsPerRun(100, func() { buffer = r.Append(buffer[:0], 5) }))
}
