package budget

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const second = int64(1e9)

func ledger(t *testing.T, l Limits) *Ledger {
	b, err := New(l)
	require.NoError(t, err)
	return b
}

func TestOnlyWhatWasEarnedIsSpent(t *testing.T) {
	b := ledger(t, Limits{Share: 0.1, GPUBurst: 1, ByteBurst: 1000})
	leg := Charge{Worker: "w", GPUSeconds: 0.5, Link: "l", Bytes: 100}
	assert.Equal(t, ShortGPU, b.Take(0, leg))
	b.Earn(0, Charge{Worker: "w", GPUSeconds: 5})
	assert.Equal(t, ShortLink, b.Take(0, leg))
	b.Earn(0, Charge{Worker: "w", Link: "l", Bytes: 1000})
	assert.Zero(t, b.Take(0, leg))
	assert.NotZero(t, b.Take(0, leg), "it is spent")
	assert.NotZero(t, b.Take(0, Charge{Worker: "other", GPUSeconds: 0.1}), "a budget is of one worker")
	production, legs := b.Totals()
	assert.Equal(t, Charge{GPUSeconds: 5, Bytes: 1000}, production)
	assert.Equal(t, Charge{GPUSeconds: 0.5, Bytes: 100}, legs)
}

func TestBucketsFillWithTimeUpToTheirBurst(t *testing.T) {
	b := ledger(t, Limits{GPURate: 0.1, GPUBurst: 1, ByteBurst: 1})
	leg := Charge{Worker: "w", GPUSeconds: 0.5}
	assert.NotZero(t, b.Take(0, leg))
	assert.NotZero(t, b.Take(4*second, leg))
	assert.Zero(t, b.Take(5*second, leg))
	assert.Zero(t, b.Take(1000*second, leg))
	assert.Zero(t, b.Take(1000*second, leg))
	assert.NotZero(t, b.Take(1000*second, leg), "no more than the burst was kept")
	assert.NotZero(t, b.Take(0, leg), "a clock that goes back gives nothing")
}

// TestLargeLegsAreNotLeftOut: a leg above the burst waits for a full bucket, and
// then delays the others; leaving it out would bias completeness by size.
func TestLargeLegsAreNotLeftOut(t *testing.T) {
	b := ledger(t, Limits{GPURate: 1, GPUBurst: 2, ByteBurst: 1})
	large := Charge{Worker: "w", GPUSeconds: 10}
	require.NotZero(t, b.Take(0, large))
	assert.NotZero(t, b.Take(1*second, large))
	assert.Zero(t, b.Take(2*second, large))
	assert.NotZero(t, b.Take(9*second, Charge{Worker: "w", GPUSeconds: 0.1}), "in debt")
	assert.Zero(t, b.Take(11*second, Charge{Worker: "w", GPUSeconds: 0.1}))
}

func TestPreparationAndOverrunsCount(t *testing.T) {
	b := ledger(t, Limits{GPURate: 1, GPUBurst: 10, ByteBurst: 10, ByteRate: 1})
	b.Charge(0, Charge{Worker: "w", GPUSeconds: 3, Link: "l", Bytes: 3})
	assert.NotZero(t, b.Take(3*second, Charge{Worker: "w", GPUSeconds: 1}))
	assert.NotZero(t, b.Take(3*second, Charge{Worker: "v", Link: "l", Bytes: 1}))
	b.Charge(3*second, Charge{Worker: "w", GPUSeconds: -1, Link: "l", Bytes: -1})
	assert.Zero(t, b.Take(3*second, Charge{Worker: "w", GPUSeconds: 1, Link: "l", Bytes: 1}))
	b.Charge(3*second, Charge{Worker: "w", GPUSeconds: math.NaN(), Link: "l", Bytes: math.Inf(1)})
	_, legs := b.Totals()
	assert.Equal(t, Charge{GPUSeconds: 3, Bytes: 3}, legs, "what is not a number is not charged")
}

// TestSpendingIsBoundedByTheShare, whatever the order of events.
func TestSpendingIsBoundedByTheShare(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := ledger(t, Limits{Share: 0.05, GPUBurst: 2, ByteBurst: 100})
		largest := 0.0
		for i := range 2000 {
			now := int64(i) * second
			b.Earn(now, Charge{Worker: "w", GPUSeconds: r.Float64(), Link: "l", Bytes: 10 * r.Float64()})
			c := Charge{Worker: "w", GPUSeconds: 4 * r.Float64(), Link: "l", Bytes: 50 * r.Float64()}
			if b.Take(now, c) == Enough {
				largest = math.Max(largest, c.GPUSeconds)
			}
		}
		production, legs := b.Totals()
		assert.Greater(t, legs.GPUSeconds, 0.0)
		assert.LessOrEqual(t, legs.GPUSeconds, 0.05*production.GPUSeconds+largest)
	}
}

func TestPooledWorkersShareOneBucket(t *testing.T) {
	b := ledger(t, Limits{Share: 1, GPUBurst: 10, ByteBurst: 1, Pool: true})
	b.Earn(0, Charge{Worker: "a", GPUSeconds: 1})
	b.Earn(0, Charge{Worker: "b", GPUSeconds: 1})
	assert.Zero(t, b.Take(0, Charge{Worker: "c", GPUSeconds: 2}))
	assert.Equal(t, ShortGPU, b.Take(0, Charge{Worker: "a", GPUSeconds: 0.1}))
	assert.False(t, b.Fills())
	assert.True(t, b.Pooled())
}

func TestDeadlineAndGate(t *testing.T) {
	b := ledger(t, Limits{GPUBurst: 1, ByteBurst: 1, MaxAgeNanos: 60 * second})
	assert.False(t, b.Expired(0, 60*second))
	assert.True(t, b.Expired(0, 60*second+1))
	assert.False(t, ledger(t, Limits{GPUBurst: 1, ByteBurst: 1}).Expired(0, math.MaxInt64))

	assert.True(t, Idle{}.Open(math.NaN(), 9))
	assert.True(t, Idle{MaxGPUQueue: 0.1, MaxFlows: 2}.Open(0.1, 2))
	assert.False(t, Idle{MaxGPUQueue: 0.1}.Open(0.2, 0))
	assert.False(t, Idle{MaxFlows: 2}.Open(0, 3))
	assert.False(t, Idle{MaxGPUQueue: 0.1}.Open(math.NaN(), 0), "not known is not idle")
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	for want, l := range map[string]Limits{
		"share":    {Share: 2, GPUBurst: 1, ByteBurst: 1},
		"rates":    {GPURate: -1, GPUBurst: 1, ByteBurst: 1},
		"bursts":   {GPUBurst: 1},
		"deadline": {GPUBurst: 1, ByteBurst: 1, MaxAgeNanos: -1},
	} {
		_, err := New(l)
		assert.ErrorContains(t, err, want)
	}
	assert.NoError(t, DefaultLimits().Validate())
}

func TestCompletion(t *testing.T) {
	var c Completion
	small := Cell{Stratum: "a", Size: 0, Leg: "rejected", Path: "recompute"}
	large := Cell{Stratum: "b", Size: 3, Leg: "rejected", Path: "recompute"}
	for range 4 {
		c.Intend(small)
		c.Intend(large)
	}
	c.Intend(Cell{Stratum: "a", Size: 3, Leg: "rejected", Path: "route"})
	c.Execute(small)
	c.Execute(large)
	c.Execute(large)
	assert.Equal(t, []Tally{{small, 4, 1}, {Cell{"a", 3, "rejected", "route"}, 1, 0}, {large, 4, 2}}, c.Tallies())
	by := c.BySize()
	require.Len(t, by, 2)
	assert.Equal(t, []float64{0.25, 0.4}, []float64{by[0].Completed(), by[1].Completed()})
	assert.Zero(t, Tally{}.Completed())
}
