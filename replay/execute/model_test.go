package execute_test

import (
	"bytes"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

func bytesOf(s string) io.Reader { return bytes.NewReader([]byte(s)) }

func TestPredict(t *testing.T) {
	nan := math.NaN()
	recompute := schema.Candidate{Bytes: -1, GPUQueue: 0.1, TransferQueue: nan, Bandwidth: nan, Restore: nan, Recompute: 0.2}
	fetch := schema.Candidate{Bytes: 50e6, GPUQueue: 0, TransferQueue: 0.001, Bandwidth: 1e9, Restore: 0.002, Recompute: 0.01}
	decision := execute.State{GPUQueue: 0.1, Flows: 3}
	cases := map[string]struct {
		c    schema.Candidate
		at   execute.State
		want float64
	}{
		"the queue that is gone":       {recompute, execute.State{}, 0.2},
		"the queue as it was":          {recompute, decision, 0.3},
		"a queue that is not known":    {recompute, execute.State{GPUQueue: nan}, 0.3},
		"a fetch among as many":        {fetch, execute.State{Flows: 3}, 0.001 + 0.05 + 0.002 + 0.01},
		"a fetch alone":                {fetch, execute.State{}, 0.001 + 0.0125 + 0.002 + 0.01},
		"a fetch hidden by the queue":  {fetch, execute.State{GPUQueue: 1}, 1 + 0.002 + 0.01},
		"flows that are not known":     {fetch, execute.State{Flows: nan}, 0.001 + 0.05 + 0.002 + 0.01},
		"terms that do not suffice":    {schema.Candidate{Recompute: nan}, execute.State{}, nan},
		"a fetch of unknown bandwidth": {schema.Candidate{Bytes: 5, Bandwidth: nan, Recompute: 1}, execute.State{}, nan},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := execute.Predict(&c.c, decision, c.at)
			if math.IsNaN(c.want) {
				assert.True(t, math.IsNaN(got), got)
				return
			}
			assert.InDelta(t, c.want, got, 1e-12)
		})
	}
	l := leg(schema.PathFetch, "w")
	assert.Equal(t, execute.Cost{GPUSeconds: 0.012, Bytes: 1 << 30}, l.Estimate())
}
