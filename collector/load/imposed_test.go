package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
)

func TestWhatNobodyPredictedIsNoBenefit(t *testing.T) {
	for name, c := range map[string]struct {
		fetch, recompute float64 // externalities; NaN: not said
		bytes            int64
		want             schema.Seconds // of the fetch
	}{
		"both predicted":                      {0.05, 0.2, 1, schema.Some(0.05)},
		"neither predicted":                   {nan, nan, 1, schema.Some(0.0)},
		"only the fetch":                      {0.05, nan, 1, schema.Some(0.05)},
		"only the recompute":                  {nan, 0.2, 1, schema.Seconds{}},
		"only the recompute, nothing to move": {nan, 0.2, 0, schema.Some(0.0)},
	} {
		t.Run(name, func(t *testing.T) {
			p := contract(1, 0)
			p.Decision.Candidates[0].Externality, p.Decision.Candidates[0].Bytes = c.fetch, c.bytes
			p.Decision.Candidates[1].Externality = c.recompute
			got := imposed(p.Decision.Candidates, 0, 1)
			require.Equal(t, c.want.OK, got.OK)
			require.Equal(t, c.want.V, got.Or(0))
			require.Equal(t, known(c.recompute).Or(0), imposed(p.Decision.Candidates, 1, 0).V)
		})
	}
}
