package client

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

func TestPredictionsAreTheLaws(t *testing.T) {
	c := newClient(t, Config{})
	d := document(1, time.Now())
	d.Links = nil
	require.NoError(t, c.Apply(seal(t, d)))
	r := request(c)
	got := c.Decide(&r, nil)

	fetch := got.Predictions[0]
	assert.Equal(t, QueueUnfitted, fetch.Flags)
	assert.InDelta(t, testTransfer.T0, fetch.TransferQueue, 1e-12)
	assert.InDelta(t, gib*5/50e9, fetch.Transfer, 1e-12, "four others share the link")
	assert.InDelta(t, 10e9, fetch.Bandwidth, 1)
	assert.InDelta(t, testRestore.Seconds(gib), fetch.Restore, 1e-12)
	assert.InDelta(t, testPrefill.Seconds(128, 8192), fetch.Recompute, 1e-12)
	want := cost.Path{GPUQueue: 0.01, TransferQueue: fetch.TransferQueue, Transfer: fetch.Transfer,
		Restore: fetch.Restore, Prefill: fetch.Recompute}
	assert.InDelta(t, want.TTFT(), fetch.TTFT, 1e-12)
	assert.InDelta(t, 4*gib/50e9+cost.ComputeExternality(fetch.Recompute, 0.01, 3, 0.4), fetch.Externality, 1e-12)

	half, none := got.Predictions[1], got.Predictions[2]
	assert.Equal(t, int64(4096), r.Candidates[1].Fetched)
	assert.Equal(t, int64(gib/2), r.Candidates[1].Bytes)
	assert.InDelta(t, testPrefill.Seconds(4096+128, 4096), half.Recompute, 1e-12)
	assert.Equal(t, schema.PathRecompute, r.Candidates[2].Path)
	assert.InDelta(t, 0.01+testPrefill.Seconds(8192+128, 0), none.TTFT, 1e-12)
	assert.True(t, math.IsNaN(none.Transfer) && math.IsNaN(none.Restore) && math.IsNaN(none.Bandwidth))
}

// With nothing else in the way, the choice between fetching and recomputing over
// a priced link is the priced rule.
func TestPricedChoiceIsAdmit(t *testing.T) {
	c := newClient(t, Config{TieFraction: -1})
	d := document(1, time.Now())
	d.Prefill[0].Law = cost.Prefill{C1: 3e-5}
	d.Transfer[0].Law = cost.Transfer{Link: cost.Link{B: 50e9}}
	d.Restore = nil
	require.NoError(t, c.Apply(seal(t, d)))
	rng := rand.New(rand.NewPCG(1, 2))
	r := request(c)
	fetches := 0
	for range 2000 {
		f := r.Candidates[0]
		f.Bytes, f.Fetched, f.Computed = 1+rng.Int64N(8*gib), 1+rng.Int64N(20_000), 0
		f.GPUQueue, f.Arrivals, f.Load = rng.Float64()*0.2, rng.Float64()*4, rng.Float64()*0.9
		view := Link{Own: float64(rng.IntN(3)), Others: float64(rng.IntN(12)), Age: rng.Float64()}
		in := Request{Candidates: []Candidate{f, recomputed(f)}, Links: []Link{view}}
		got := c.Decide(&in, nil)
		price := d.Links[0].Price
		flows := price.ExpectedFlows(cost.View{Own: view.Own, Others: view.Others, Age: view.Age, Coordinators: 8}, 50e9)
		recompute := got.Predictions[1]
		admit := price.Admit(float64(f.Bytes), flows, 50e9, f.GPUQueue, recompute.Recompute, recompute.Externality)
		require.Equal(t, admit, got.Chosen == 0, "%+v", in)
		fetches += 1 - got.Chosen
	}
	assert.Greater(t, fetches, 200)
	assert.Less(t, fetches, 1800)
}

func TestOutsideTheBoxTheFallbackAnswers(t *testing.T) {
	c := newClient(t, Config{})
	require.NoError(t, c.Apply(seal(t, document(1, time.Now()))))
	for _, tc := range []struct {
		name   string
		change func(*Request)
		want   Flags
	}{
		{"inside", func(*Request) {}, 0},
		{"longer prompt than any seen", func(r *Request) { r.Candidates[0].Computed = 100_000 }, PrefillFallback},
		{"more bytes than any seen", func(r *Request) { r.Candidates[0].Bytes = 9 * gib }, TransferFallback | RestoreFallback},
		{"more flows than any seen", func(r *Request) { r.Links[0].Own = 40 }, TransferFallback},
		{"unknown model", func(r *Request) { r.Candidates[0].Prefill = c.PrefillKey("other", "g") }, PrefillFallback},
		{"zero keys", func(r *Request) { f := &r.Candidates[0]; f.Prefill, f.Transfer, f.Restore = 0, 0, 0 },
			PrefillFallback | TransferFallback | RestoreFallback},
		{"key of nobody", func(r *Request) { r.Candidates[0].Prefill = 999 }, PrefillFallback},
		{"link never heard of", func(r *Request) { r.Links[0].Others = math.NaN() }, LinkUnknown},
		{"no such link", func(r *Request) { r.Candidates[0].Link = 7 }, LinkUnknown},
		{"queue not a number", func(r *Request) { r.Candidates[0].GPUQueue = math.NaN() }, Unpredictable},
	} {
		r := request(c)
		tc.change(&r)
		got := c.Decide(&r, nil).Predictions[0]
		assert.Equal(t, tc.want, got.Flags&^(QueueUnfitted|Priced), tc.name)
		if tc.want&PrefillFallback != 0 {
			f := r.Candidates[0]
			assert.InDelta(t, testFallback.Prefill.Seconds(float64(f.Computed), float64(f.Fetched)), got.Recompute, 1e-12, tc.name)
		}
	}
}

func TestQueueFit(t *testing.T) {
	c := newClient(t, Config{})
	d := document(1, time.Now())
	d.Queue = schema.QueueFit{Bias: -0.005, Slope: 2, Omega: 0.5, Quality: schema.Quality{N: 10}}
	require.NoError(t, c.Apply(seal(t, d)))
	r := request(c)
	r.Candidates[0].Unheld = true
	got := c.Decide(&r, nil).Predictions[0]
	assert.InDelta(t, 0.015, got.GPUQueue, 1e-12)
	x := got.TransferQueue + got.Transfer
	assert.InDelta(t, math.Max(0.015, x)+0.5*math.Min(0.015, x)+got.Restore+got.Recompute, got.TTFT, 1e-12)
	r.Candidates[0].GPUQueue = 0
	assert.Zero(t, c.Decide(&r, nil).Predictions[0].GPUQueue)
}

// plain is a request of recomputes that take the given queues, plus nothing.
func plain(c *Client, queues ...float64) Request {
	r := Request{Key: 7}
	for _, q := range queues {
		r.Candidates = append(r.Candidates, Candidate{Path: schema.PathRecompute, Prefill: c.PrefillKey("m", "g"), Link: -1, GPUQueue: q})
	}
	return r
}

func TestChoice(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name       string
		queues     []float64
		budget     float64
		want       int
		infeasible bool
	}{
		{"the least", []float64{3, 1, 2}, 0, 1, false},
		{"within budget", []float64{3, 1, 2}, 1.5, 1, false},
		{"none within budget: the fastest", []float64{3, 1, 2}, 0.5, 1, true},
		{"what is not a number is not chosen", []float64{nan, 5}, 0, 1, false},
		{"no candidates", nil, 0, -1, false},
	} {
		c := newClient(t, Config{})
		r := plain(c, tc.queues...)
		r.Budget = tc.budget
		got := c.Decide(&r, nil)
		assert.Equal(t, tc.want, got.Chosen, tc.name)
		assert.Equal(t, tc.infeasible, got.Infeasible, tc.name)
	}
	c := newClient(t, Config{})
	r := plain(c, nan, nan)
	r.Candidates[0].Bytes = 10
	assert.Equal(t, 1, c.Decide(&r, nil).Chosen, "nothing is known: the fewest bytes")
}

// Propensities are what happens: over many keys each candidate is chosen as often
// as its propensity says.
func TestPropensity(t *testing.T) {
	c := newClient(t, Config{TieFraction: 0.05, Explore: 0.2, Salt: 99})
	const trials = 40_000
	counts := make([]int, 4)
	r := plain(c, 1, 1.04, 2, 30)
	r.Budget = 10
	var got Decision
	for k := range uint64(trials) {
		r.Key = k
		got = c.Decide(&r, got.Predictions)
		counts[got.Chosen]++
	}
	want := []float64{0.4 + 0.2/3, 0.4 + 0.2/3, 0.2 / 3, 0}
	for i, p := range got.Predictions {
		assert.InDelta(t, want[i], p.Propensity, 1e-12)
		assert.InDelta(t, want[i], float64(counts[i])/trials, 0.01)
	}
	assert.Equal(t, 2, got.Tied)

	other := newClient(t, Config{TieFraction: 0.05, Explore: 0.2, Salt: 100})
	same := 0
	for k := range uint64(1000) {
		r.Key = k
		if c.Decide(&r, nil).Chosen == other.Decide(&r, nil).Chosen {
			same++
		}
	}
	assert.Less(t, same, 600, "another salt tosses another coin")
}

func TestFillWritesTheRecord(t *testing.T) {
	p := Prediction{GPUQueue: 1, TransferQueue: 2, Bandwidth: 3, Restore: 4, Recompute: 5, TTFT: 6, Externality: 7, Propensity: 8}
	got := schema.Candidate{Worker: "w"}
	p.Fill(&got)
	assert.Equal(t, schema.Candidate{Worker: "w", GPUQueue: 1, TransferQueue: 2, Bandwidth: 3, Restore: 4,
		Recompute: 5, TTFT: 6, Externality: 7, Propensity: 8}, got)
}

func TestDecideAllocatesNothing(t *testing.T) {
	c := newClient(t, Config{})
	require.NoError(t, c.Apply(seal(t, document(1, time.Now()))))
	r := request(c)
	out := make([]Prediction, len(r.Candidates))
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.Decide(&r, out) }))
}

func BenchmarkDecide(b *testing.B) {
	c := newClient(b, Config{})
	if err := c.Apply(seal(b, document(1, time.Now()))); err != nil {
		b.Fatal(err)
	}
	b.Run("quiet", func(b *testing.B) { decideLoop(b, c) })
	b.Run("republished", func(b *testing.B) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					c.recompile()
				}
			}
		}()
		decideLoop(b, c)
		close(stop)
		<-stopped
	})
}

func decideLoop(b *testing.B, c *Client) {
	r := request(c)
	out := make([]Prediction, len(r.Candidates))
	b.ReportAllocs()
	for b.Loop() {
		r.Key++
		c.Decide(&r, out)
	}
}
