package verdict

import (
	"math"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// TestInclusionFromAStoredRowAlone: from a row of requests and the plan, without the
// span that it was made of, every leg comes out with the π that was logged on it,
// also where the predicted margin lies on a bound of the strata and the row holds
// it in single precision only.
func TestInclusionFromAStoredRowAlone(t *testing.T) {
	params := sample.DefaultParams()
	params.Rate, params.Control, params.ControlRates = 0.5, 0.5, nil
	params.Weights = map[string]float64{"recompute": 3}
	for margin := range 5 { // π differs between the strata of a margin
		for _, size := range []string{"size0", "size1", "size2", "size3"} {
			for _, load := range []string{"load0", "load1", "load2", "load3"} {
				for _, path := range []string{"fetch/" + size + "/margin", "recompute/" + size + "/margin"} {
					if params.Rates == nil {
						params.Rates = map[string]float64{}
					}
					params.Rates[path+string(rune('0'+margin))+"/cpu/"+load] = 0.1 + 0.15*float64(margin)
				}
			}
		}
	}
	plan, err := sample.New(params, []byte("sixteen bytes or more"))
	require.NoError(t, err)

	w := newWorld(t, 2000, 0)
	drawn := map[schema.RowID][]sample.Draw{}
	bounds := append([]float64{0.3}, params.MarginBounds...)
	for i, p := range w.parts {
		a := p.Decision.Candidates[1-p.Decision.Chosen.V].TTFT
		own := &p.Decision.Candidates[p.Decision.Chosen.V]
		own.TTFT = a / (1 + bounds[i%len(bounds)]) * (1 + 1e-9*float64(i%7-3)) // not a single: about the bound
		p.Decision.Candidates[2].Path = schema.PathRoute
		drawn[p.RowID()] = plan.Draw(p)
	}
	conn := database(t)
	storeRequests(t, conn, w.parts)

	opt := Options{}.withDefaults(window)
	rows, err := conn.Query(ch.Context(t.Context(), ch.WithParameters(parameters(Scope{}, window, opt))), decisionsSQL)
	require.NoError(t, err)
	defer rows.Close()
	n, legs := 0, 0
	for ; rows.Next(); n++ {
		var r record
		require.NoError(t, r.scan(rows))
		row, err := r.part()
		require.NoError(t, err)
		was, ok := drawn[row.RowID()]
		require.True(t, ok)
		require.Equal(t, was, plan.Draw(row), "the same legs, of the same strata, with the same π")
		for _, d := range was {
			legs++
			want := d.Inclusion
			if d.Leg == schema.LegRejected {
				require.InDelta(t, want, plan.Inclusion(row, d.Path), 1e-15)
			} else {
				require.InDelta(t, want, plan.ControlRate(row.Decision.Path), 1e-15)
			}
			require.False(t, math.IsNaN(want) || want <= 0)
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, len(w.parts), n)
	require.Greater(t, legs, 500)
}
