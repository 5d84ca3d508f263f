package sample

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var salt = []byte("a salt of sixteen bytes or more")

func plan(t testing.TB, change func(*Params)) *Plan {
	p := DefaultParams()
	if change != nil {
		change(&p)
	}
	out, err := New(p, salt)
	require.NoError(t, err)
	return out
}

// part is request i: fetched, with a recompute on its worker and on another, and
// two routes.
func part(i int) *schema.Part {
	p := &schema.Part{Kind: schema.KindContract}
	binary.BigEndian.PutUint64(p.Trace[:], uint64(i))
	p.Span[7] = 1
	p.Decision = schema.Decision{
		Path: schema.PathFetch, Chosen: schema.Some[int64](1), Worker: "w1", SourceTier: schema.TierCPU,
		TokensPrefix: schema.Some[int64](4096), LinkFlows: schema.Some[int64](3),
		Candidates: []schema.Candidate{
			{Path: schema.PathRecompute, Worker: "w2", TTFT: 0.1, Externality: math.NaN()},
			{Path: schema.PathFetch, Worker: "w1", TTFT: 0.2, Externality: 0.01},
			{Path: schema.PathRecompute, Worker: "w1", TTFT: 0.3, Externality: math.NaN()},
			{Path: schema.PathRoute, Worker: "w3", TTFT: 0.25, Externality: 0.2},
			{Path: schema.PathRoute, Worker: "w4", TTFT: 0.3, Externality: 0.01},
			{Path: schema.PathFetch, Worker: "w1", TTFT: 0.22, Externality: 0},
			{Path: schema.PathResident, Worker: "w5", TTFT: math.NaN()},
		},
	}
	return p
}

func TestAlternatives(t *testing.T) {
	d := &part(0).Decision
	assert.Equal(t, [NumPaths]int{-1, 1, 2, 4, -1}, Alternatives(d),
		"the choice itself, the recompute on its worker, the best route by own time and externality, no resident without a prediction")
	d.Chosen = schema.Count{}
	assert.Equal(t, [NumPaths]int{-1, -1, -1, -1, -1}, Alternatives(d))
}

// TestDrawsHaveTheProbabilityTheySay is the property that the estimator rests on.
func TestDrawsHaveTheProbabilityTheySay(t *testing.T) {
	p := plan(t, func(p *Params) { p.Rate, p.Control = 0.3, 0.2 })
	const n = 40_000
	seen, said := map[string]float64{}, map[string]float64{}
	for i := range n {
		for _, d := range p.Draw(part(i)) {
			k := d.Leg.String() + " " + d.Path.String()
			seen[k]++
			said[k] = d.Inclusion
			if d.Leg == schema.LegRejected {
				assert.Equal(t, d.Inclusion, p.Inclusion(part(i), d.Path))
			}
		}
	}
	assert.InDelta(t, 0.3*2/3, said["rejected recompute"], 1e-12)
	assert.InDelta(t, 0.3*1/3, said["rejected route"], 1e-12)
	assert.InDelta(t, 0.2, said["control fetch"], 1e-12)
	require.Len(t, said, 3)
	for k, pi := range said {
		assert.InDelta(t, pi, seen[k]/n, 5*math.Sqrt(pi*(1-pi)/n), k)
	}
}

func TestDrawsAreRepeatableAndDependOnTheSaltAlone(t *testing.T) {
	a, b := plan(t, func(p *Params) { p.Rate = 0.5 }), plan(t, func(p *Params) { p.Rate = 0.5 })
	other, err := New(a.Params(), []byte("another salt of sixteen bytes"))
	require.NoError(t, err)
	assert.Equal(t, a.ID(), b.ID())
	assert.NotEqual(t, a.ID(), other.ID())
	same := 0
	for i := range 1000 {
		assert.Equal(t, a.Draw(part(i)), b.Draw(part(i)))
		if fmt.Sprint(a.Draw(part(i))) == fmt.Sprint(other.Draw(part(i))) {
			same++
		}
	}
	assert.Less(t, same, 700)
	assert.NotEqual(t, a.LegSalt("x"), a.LegSalt("y"))
	assert.Equal(t, a.LegSalt("x"), b.LegSalt("x"))
	assert.Len(t, a.LegSalt("x"), 32)
}

// TestDrawsIgnoreUpstreamSampling: whatever bits of the trace id a tracer
// upstream sampled by, the share drawn is the same.
func TestDrawsIgnoreUpstreamSampling(t *testing.T) {
	p := plan(t, func(p *Params) { p.Rate = 0.2 })
	n, drawn := 0.0, 0.0
	for i := range 200_000 {
		if i&0xf != 0 {
			continue // as a tracer that keeps one in sixteen
		}
		n++
		for _, d := range p.Draw(part(i)) {
			if d.Leg == schema.LegRejected {
				drawn++
			}
		}
	}
	assert.InDelta(t, 0.2, drawn/n, 5*math.Sqrt(0.2*0.8/n))
}

func TestNoProbabilityIsZero(t *testing.T) {
	p := plan(t, func(p *Params) {
		p.MinRate = 0.01
		p.Rates = map[string]float64{"fetch/size2/margin3/cpu/load1": 1e-9}
	})
	d := part(1)
	require.Equal(t, "fetch/size2/margin3/cpu/load1", p.StratumOf(&d.Decision).String())
	assert.Equal(t, 0.01, p.Rate(p.StratumOf(&d.Decision)))
	assert.InDelta(t, 0.01*2/3, p.Inclusion(d, schema.PathRecompute), 1e-15)
	assert.Zero(t, p.Inclusion(d, schema.PathResident), "there was no such candidate")
	assert.Zero(t, p.Inclusion(d, schema.PathFetch), "it is the choice")
}

func TestStrata(t *testing.T) {
	p := plan(t, nil)
	cases := map[string]struct {
		change func(*schema.Decision)
		want   string
	}{
		"all known":   {func(*schema.Decision) {}, "fetch/size2/margin3/cpu/load1"},
		"nothing":     {func(d *schema.Decision) { *d = schema.Decision{} }, "/size-1/margin-1/none/load-1"},
		"by requests": {func(d *schema.Decision) { d.LinkFlows = schema.Count{}; d.WorkerActive = schema.Some[int64](99) }, "fetch/size2/margin3/cpu/load3"},
		"recomputed, tier of the alternative": {func(d *schema.Decision) {
			d.Path, d.Chosen, d.SourceTier = schema.PathRecompute, schema.Some[int64](2), schema.TierNone
			d.Candidates[1].Tier = schema.TierDisk
			d.Candidates[3].TTFT, d.Candidates[4].TTFT, d.Candidates[5].TTFT = math.NaN(), math.NaN(), math.NaN()
		}, "recompute/size2/margin1/disk/load1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := part(0).Decision
			c.change(&d)
			assert.Equal(t, c.want, p.StratumOf(&d).String())
		})
	}
}

func TestIneligible(t *testing.T) {
	p := plan(t, func(p *Params) { p.Rate, p.Control = 1, 1 })
	cases := map[string]func(*schema.Part){
		"no decision":                         func(p *schema.Part) { p.Kind = schema.KindReplay },
		"no chosen path":                      func(p *schema.Part) { p.Decision.Path = schema.PathNone },
		"no chosen candidate":                 func(p *schema.Part) { p.Decision.Chosen = schema.Some[int64](7) },
		"chosen candidate is of another path": func(p *schema.Part) { p.Decision.Chosen = schema.Some[int64](0) },
	}
	for why, change := range cases {
		d := part(0)
		change(d)
		assert.Equal(t, why, Eligible(d))
		assert.Empty(t, p.Draw(d))
	}
	alone := part(0)
	alone.Decision.Candidates, alone.Decision.Chosen = alone.Decision.Candidates[1:2], schema.Some[int64](0)
	assert.Empty(t, p.Draw(alone), "without an alternative it is in no comparison")
}

func TestPlansThatMakeNoSense(t *testing.T) {
	cases := map[string]func(*Params){
		"turn replaying off":            func(p *Params) { p.Rate = 0 },
		"min_rate":                      func(p *Params) { p.MinRate = math.NaN() },
		"version":                       func(p *Params) { p.Version = 0 },
		"name a path and give a rate":   func(p *Params) { p.ControlRates = map[string]float64{"fetching": 0.1} },
		"name a path and give a weight": func(p *Params) { p.Weights = map[string]float64{"fetch": 0} },
		"must rise":                     func(p *Params) { p.LoadBounds = []float64{2, 1} },
		"of stratum":                    func(p *Params) { p.Rates = map[string]float64{"x": 2} },
	}
	for want, change := range cases {
		p := DefaultParams()
		change(&p)
		_, err := New(p, salt)
		assert.ErrorContains(t, err, want)
	}
	_, err := New(DefaultParams(), []byte("short"))
	assert.ErrorContains(t, err, "salt")
}

func TestReplanSpendsTheBudgetWhereItTellsMost(t *testing.T) {
	p := plan(t, func(p *Params) { p.MinRate = 0.001 })
	s := func(size int) Stratum { return Stratum{Path: schema.PathFetch, Size: size} }
	counts := []Count{
		{Stratum: s(0), Decisions: 1000, SD: 0.01, Cost: 0.1},
		{Stratum: s(1), Decisions: 1000, SD: 0.1, Cost: 0.1},
		{Stratum: s(2), Decisions: 1000, SD: 0.1, Cost: 0.4},
		{Stratum: s(3), Decisions: 1000, SD: math.NaN(), Cost: 0.1},
	}
	next, err := p.Replan(counts, Funds{GPUSeconds: 10})
	require.NoError(t, err)
	assert.Equal(t, p.Params().Version+1, next.Params().Version)
	assert.NotEqual(t, p.ID(), next.ID())
	spent := 0.0
	for _, c := range counts {
		spent += next.Rate(c.Stratum) * c.Decisions * c.Cost
	}
	assert.InDelta(t, 10, spent, 1e-6)
	assert.InDelta(t, 10, next.Rate(s(1))/next.Rate(s(0)), 1e-6, "rate in proportion to the spread")
	assert.InDelta(t, 2, next.Rate(s(1))/next.Rate(s(2)), 1e-6, "and to 1/√cost")
	assert.Equal(t, next.Rate(s(1)), next.Rate(s(3)), "an unknown spread counts as the largest")

	poor, err := p.Replan(counts, Funds{GPUSeconds: 1e-9})
	require.NoError(t, err)
	assert.Equal(t, 0.001, poor.Rate(s(1)), "never zero")
	_, err = p.Replan(counts, Funds{})
	assert.Error(t, err)
}

func BenchmarkDraw(b *testing.B) {
	p, d := plan(b, nil), part(0)
	for b.Loop() {
		p.Draw(d)
	}
}
