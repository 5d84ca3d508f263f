package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

func TestOfDocument(t *testing.T) {
	covariance := make([]float64, 36)
	covariance[0], covariance[7], covariance[14] = 4, 0, 9
	d := schema.Document{Revision: 7, Previous: 6, Fit: schema.Window{N: 12},
		Prefill:  []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C0: 1, C1: 2, C2: 3, Chunk: 4}}},
		Transfer: []schema.TransferFit{{Tier: "cpu", Link: "l", Law: cost.Transfer{T0: 1, Cold: 2, Link: cost.Link{B: 5}}, Quality: schema.Quality{N: 3, Covariance: covariance, Residuals: [5]float64{-1, 0, 0, 0, 1}}}},
		Restore:  []schema.RestoreFit{{Model: "m", Tier: "cpu", Quality: schema.Quality{Covariance: []float64{1, 2, 3}}}},
	}
	c := OfDocument(d)
	require.Equal(t, int64(7), c.Revision)
	require.Len(t, c.Terms, 3, "a queue that nothing was fitted from is not shown")

	prefill := c.Terms[0]
	require.Equal(t, "m on g", prefill.Of)
	require.False(t, prefill.Error.Known(), "an error of no points")
	transfer := c.Terms[1]
	require.Equal(t, "bend", transfer.Values[2].Name)
	require.Equal(t, Value{"b", "bytes/s", Num(5), Number{}}, transfer.Values[3])
	require.Equal(t, Num(2), transfer.Values[0].StandardError)
	require.False(t, transfer.Values[1].StandardError.Known(), "cold was not fitted")
	require.Equal(t, Num(3), transfer.Values[2].StandardError)
	for _, term := range c.Terms {
		for _, v := range term.Values {
			require.NotEmpty(t, v.Unit, "%s of %s has no unit", v.Name, term.Law)
		}
	}
	require.False(t, c.Terms[2].Values[0].StandardError.Known(), "a covariance that is no square says nothing")
}
