package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// plantPrefill makes n noisy prefills of law, one in twenty an outlier.
func plantPrefill(law cost.Prefill, n int, noise float64) (obs []PrefillObs) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range n {
		o := PrefillObs{Model: "m", GPU: "g", Computed: float64(1 + rng.IntN(16384)), Before: float64(rng.IntN(30000)), At: int64(i)}
		o.Seconds = law.Seconds(o.Computed, o.Before) * math.Exp(noise*rng.NormFloat64())
		if i%20 == 0 {
			o.Seconds *= 4
		}
		obs = append(obs, o)
	}
	return obs
}

func TestPrefillFormsAreFound(t *testing.T) {
	for _, tc := range []struct {
		name string
		law  cost.Prefill
	}{
		{"c1·n", cost.Prefill{C1: 2e-5}},
		{"c0 + c1·n", cost.Prefill{C0: 0.05, C1: 2e-5}},
		{"c1·n + c2·n(m + n/2)", cost.Prefill{C1: 2e-5, C2: 1e-9}},
		{"c0 + c1·n + c2·n(m + n/2)", cost.Prefill{C0: 0.05, C1: 2e-5, C2: 1e-9}},
		{"c0·⌈n/2048⌉ + c1·n + c2·n(m + n/2)", cost.Prefill{C0: 0.05, C1: 2e-5, C2: 1e-9, Chunk: 2048}},
	} {
		obs := plantPrefill(tc.law, 1500, 0.05)
		got, q, err := Prefill(obs)
		require.NoError(t, err)
		assert.Equal(t, tc.name, q.Form)
		assert.Equal(t, tc.law.Chunk, got.Chunk)
		probe := []PrefillObs{{Computed: 100, Before: 0}, {Computed: 5000, Before: 9000}, {Computed: 16000, Before: 30000}}
		for _, p := range probe {
			assert.InEpsilon(t, tc.law.Seconds(p.Computed, p.Before), got.Seconds(p.Computed, p.Before), 0.03, tc.name)
		}
		require.Len(t, q.Covariance, 16)
		if tc.law.C2 > 0 {
			assert.InDelta(t, tc.law.C2, got.C2, 5*math.Sqrt(q.Covariance[10]), tc.name)
		}
		assert.InDelta(t, 46_000, q.MaxTokens, 1500)
		assert.Equal(t, int64(1500), q.N)
		assert.Less(t, q.Residuals[0], q.Residuals[4])
	}
}

func TestRepeatNoiseIsTheNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var obs []PrefillObs
	for i := range 2000 {
		n := float64(int(512) << rng.IntN(5))
		obs = append(obs, PrefillObs{Computed: n, Seconds: (0.05 + 2e-5*n) * math.Exp(0.1*rng.NormFloat64()), At: int64(i)})
	}
	_, q, err := Prefill(obs)
	require.NoError(t, err)
	meanAbsolute := 0.1 * math.Sqrt(2/math.Pi)
	assert.InEpsilon(t, meanAbsolute, q.Floor, 0.1)
	assert.InEpsilon(t, q.Floor, q.Error, 0.1, "a law of the right form errs by the noise and no more")
}

func TestRestoreAndQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var restores []RestoreObs
	var queues []QueueObs
	var stalls []StallObs
	for i := range 1000 {
		bytes := 1e8 * (1 + 50*rng.Float64())
		restores = append(restores, RestoreObs{Model: "m", Tier: "cpu", Bytes: bytes, At: int64(i),
			Seconds: (0.002 + 1e-11*bytes) * math.Exp(0.05*rng.NormFloat64())})
		reported := max(0, rng.NormFloat64()) * 0.2
		queues = append(queues, QueueObs{Reported: reported, At: int64(i),
			Observed: max(0, 0.01+1.4*reported+0.002*rng.NormFloat64())})
		qg, x := 0.3*rng.Float64(), 0.3*rng.Float64()
		stalls = append(stalls, StallObs{GPUQueue: qg, Fetched: x, Stall: max(0, x-qg) + 0.4*min(qg, x)*(1+0.1*rng.NormFloat64())})
	}
	law, q, err := Restore(restores)
	require.NoError(t, err)
	assert.Equal(t, "d0 + d1·S", q.Form)
	assert.InEpsilon(t, 0.002, law.D0, 0.1)
	assert.InEpsilon(t, 1e-11, law.D1, 0.02)

	queue, err := Queue(queues, stalls)
	require.NoError(t, err)
	assert.InDelta(t, 0.01, queue.Bias, 0.002)
	assert.InEpsilon(t, 1.4, queue.Slope, 0.03)
	assert.InDelta(t, 0.4, queue.Omega, 0.02)
	assert.InDelta(t, 0.02, queue.Quality.Floor, 0.02, "2 ms of noise on a mean wait of some 0.12 s, also where half the queues are empty")

	zero, _, err := Restore([]RestoreObs{{Bytes: 1}, {Bytes: 2}, {Bytes: 3}})
	require.NoError(t, err)
	assert.Zero(t, zero, "layer streaming restores in no time of its own")
}

func TestOverlapsAreExact(t *testing.T) {
	flows := []TransferObs{{Start: 0, End: 10}, {Start: 2, End: 6}, {Start: 4, End: 12}, {Start: 20, End: 21}}
	assert.Equal(t, [][]share{
		{{1, 2}, {2, 6}, {3, 2}},
		{{2, 2}, {3, 2}},
		{{1, 2}, {2, 4}, {3, 2}},
		{{1, 1}},
	}, overlaps(flows))
}

func TestLevels(t *testing.T) {
	for _, n := range []int{1, 2, 63, 64, 65, 100, 1000, 50_000} {
		assert.InEpsilon(t, n, countOf(levelOf(n)), 0.03)
	}
	assert.Less(t, levelOf(50_000), 250)
}

func TestColdIsTheFirstUseOfAPair(t *testing.T) {
	var obs []TransferObs
	for i := range 400 {
		queue := 0.001
		pair := i / 8 // each used eight times in a row
		if i%8 == 0 {
			queue = 0.5
		}
		obs = append(obs, TransferObs{Tier: "peer", Link: "l", Pair: string(rune('a' + pair)), Start: float64(i),
			End: float64(i) + 0.1*(1+float64(i%5)), Bytes: 1e9 * (1 + float64(i%5)), Queue: queue})
	}
	fits, skipped := Transfers(obs, 50)
	require.Empty(t, skipped)
	assert.InDelta(t, 0.001, fits[0].Law.T0, 1e-9)
	assert.InDelta(t, 0.499, fits[0].Law.Cold, 1e-9)
	assert.InEpsilon(t, 1e10, fits[0].Law.Link.B, 1e-3)
}

func TestTooLittleIsSaid(t *testing.T) {
	obs := Observations{Prefill: plantPrefill(cost.Prefill{C1: 1e-5}, 30, 0.1)}
	laws, skipped := All(obs, 0)
	assert.Empty(t, laws.Prefill)
	require.NotEmpty(t, skipped)
	assert.Equal(t, Skipped{"prefill", "m on g", 30, "fewer than 50 observations"}, skipped[0])

	same := make([]PrefillObs, 60)
	for i := range same {
		same[i] = PrefillObs{Computed: 100, Seconds: math.NaN(), At: int64(i)}
	}
	_, _, err := Prefill(same)
	assert.ErrorContains(t, err, "identify no form")
}
