package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// scene runs jobs on one worker behind a link of 10 bytes/s and gives the ends.
func scene(t *testing.T, yields bool, jobs ...job) map[int32]finished {
	c := newCore(&Config{Workers: 1, ReplayYields: yields, Link: Link{Law: cost.Link{B: 10}}})
	c.jobs = jobs
	for id := range jobs {
		j := &c.jobs[id]
		j.enqueue, j.weight, j.estimate = j.at, 1, j.prefill+j.restore
		c.settle(j.at)
		c.place(int32(id))
	}
	c.settle(1e9)
	out := map[int32]finished{}
	for _, f := range c.done {
		out[f.id] = f
		o := observe(&f, &c.jobs[f.id])
		require.InDelta(t, o.TTFT.V, o.GPUQueue.V+o.ExposedStall.V+o.Restore.V+o.Prefill.V, 1e-9)
	}
	require.Len(t, out, len(jobs))
	return out
}

func TestWorker(t *testing.T) {
	fetch := func(at, bytes, restore, prefill float64) job {
		return job{at: at, flowAt: at, bytes: bytes, restore: restore, prefill: prefill, chunks: 1}
	}
	compute := func(at, prefill, chunks float64) job { return job{at: at, prefill: prefill, chunks: chunks} }
	low := func(j job) job { j.low = true; return j }
	for name, c := range map[string]struct {
		jobs               []job
		ends, stall, queue []float64
	}{
		"in order of arrival": {
			[]job{compute(0, 2, 1), compute(1, 3, 1)}, []float64{2, 5}, []float64{0, 0}, []float64{0, 1}},
		"a transfer behind the queue costs nothing": {
			[]job{compute(0, 3, 1), fetch(0, 20, 1, 1)}, []float64{3, 5}, []float64{0, 0}, []float64{0, 3}},
		"a transfer on an idle GPU stalls": {
			[]job{fetch(0, 20, 1, 1)}, []float64{4}, []float64{2}, []float64{0}},
		"the stall begins when the queue ends": {
			[]job{compute(0, 1, 1), fetch(0, 20, 0, 1)}, []float64{1, 3}, []float64{0, 1}, []float64{0, 1}},
		"the GPU goes on with others, and gives way at a chunk": {
			[]job{fetch(0, 20, 0, 1), compute(0.5, 4, 4)}, []float64{3.5, 5.5}, []float64{2, 0}, []float64{0.5, 1}},
		"one chunk does not give way": {
			[]job{fetch(0, 20, 0, 1), compute(0.5, 4, 1)}, []float64{5.5, 4.5}, []float64{2, 0}, []float64{2.5, 0}},
		"a later one never overtakes": {
			[]job{compute(0, 4, 4), fetch(0, 10, 0, 1)}, []float64{4, 5}, []float64{0, 0}, []float64{0, 4}},
		"a replay waits for production": {
			[]job{compute(0, 2, 1), low(compute(0, 1, 1)), compute(1, 2, 1)}, []float64{2, 5, 4}, []float64{0, 0, 0}, []float64{0, 4, 1}},
		"a replay does not give way": {
			[]job{low(compute(0, 4, 4)), compute(0.5, 2, 1)}, []float64{4, 6}, []float64{0, 0}, []float64{0, 3.5}},
		"a yielding replay gives way at a chunk": {
			[]job{low(compute(0, 4, 4)), compute(0.5, 2, 1)}, []float64{6, 3}, []float64{0, 0}, []float64{2, 0.5}},
		"replays in order": {
			[]job{low(compute(0, 2, 2)), low(compute(0, 2, 2))}, []float64{2, 4}, []float64{0, 0}, []float64{0, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got := scene(t, strings.Contains(name, "yielding"), c.jobs...)
			for id, f := range got {
				j := c.jobs[id]
				o := observe(&f, &j)
				require.InDelta(t, c.ends[id], f.at, 1e-9, "end of %d", id)
				require.InDelta(t, c.stall[id], o.ExposedStall.V, 1e-9, "stall of %d", id)
				require.InDelta(t, c.queue[id], o.GPUQueue.V, 1e-9, "queue of %d", id)
			}
		})
	}
}

func TestDecodesSlowAPrefillAndAreHeldUp(t *testing.T) {
	c := newCore(&Config{Workers: 1, Interference: 0.1, DecodeShare: 0.5, Link: Link{Law: cost.Link{B: 1}}})
	c.jobs = []job{{prefill: 1, chunks: 1, decode: 10}, {at: 2, enqueue: 2, prefill: 1, chunks: 1}, {at: 11.3, enqueue: 11.3, prefill: 1, chunks: 1}}
	for id := range c.jobs {
		c.settle(c.jobs[id].at)
		c.place(int32(id))
	}
	c.settle(100)
	require.InDelta(t, 3.1, c.done[1].at, 1e-12, "one decode in flight")
	require.InDelta(t, 11.3+1.1, c.done[2].at, 1e-12, "it would have ended at 11, and was held up to 11.55")
	require.InDelta(t, 0.55+0.55, c.decodeDelay, 1e-12)
}
