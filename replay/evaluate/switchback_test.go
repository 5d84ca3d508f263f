package evaluate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/evaluate"
)

// trial is a switchback of a known effect.
type trial struct {
	seed    uint64
	blocks  int
	effect  float64
	weather float64 // σ of what a block's requests share
	lag     float64 // seconds after which 1/e of a switch's effect is still to come
	pairs   bool
	each    int // requests of a block
}

const blockSeconds = 60.0

func (t trial) rows() []evaluate.Served {
	r := rand.New(rand.NewPCG(t.seed, 3))
	b := make([]bool, t.blocks)
	for i := range b {
		b[i] = i%2 == 1
	}
	if t.pairs {
		for i := 0; i+1 < len(b); i += 2 {
			if r.IntN(2) == 0 {
				b[i], b[i+1] = b[i+1], b[i]
			}
		}
	} else {
		r.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
	}
	var out []evaluate.Served
	state := 0.0
	for i := range b {
		shared := 1 + t.weather*r.NormFloat64()
		n := t.each/2 + r.IntN(t.each+1)
		target := map[bool]float64{true: t.effect, false: 0}[b[i]]
		for k := range n {
			into := blockSeconds * float64(k) / float64(n)
			now := target
			if t.lag > 0 {
				now = target + (state-target)*math.Exp(-into/t.lag)
			}
			out = append(out, evaluate.Served{
				At: blockSeconds*float64(i) + into, Policy: map[bool]string{true: "b", false: "a"}[b[i]], Outcome: shared + now + 0.2*r.NormFloat64(),
			})
		}
		if t.lag > 0 {
			state = target + (state-target)*math.Exp(-blockSeconds/t.lag)
		}
	}
	return out
}

func minutes() evaluate.Switchback {
	return evaluate.Switchback{A: "a", B: "b", Block: blockSeconds}
}

func switched(t *testing.T, rows []evaluate.Served, s evaluate.Switchback) evaluate.Switched {
	t.Helper()
	got, err := evaluate.Switch(rows, s)
	require.NoError(t, err)
	return got
}

// TestEveryAssignmentIsCounted: of 70 ways to arrange 4 and 4 blocks, only two show
// an effect as large as a large one.
func TestEveryAssignmentIsCounted(t *testing.T) {
	got := switched(t, trial{seed: 1, blocks: 8, effect: 5, weather: 0.1, each: 40}.rows(), minutes())
	require.True(t, got.Known, got.Why)
	assert.True(t, got.Exact)
	assert.Equal(t, 70, got.Draws)
	assert.InDelta(t, 2./70, got.P, 1e-12)
	pairs := minutes()
	pairs.Design = evaluate.DesignPairs
	got = switched(t, trial{seed: 1, blocks: 16, effect: 5, weather: 0.1, each: 40, pairs: true}.rows(), pairs)
	require.True(t, got.Known, got.Why)
	assert.Equal(t, 256, got.Draws)
	assert.InDelta(t, 2./256, got.P, 1e-12)
}

// TestIntervalInvertsTheTest: an effect just inside the interval, taken from every
// outcome under b, leaves a p-value above 0.05; one just outside does not.
func TestIntervalInvertsTheTest(t *testing.T) {
	for seed := range uint64(5) {
		rows := trial{seed: seed, blocks: 12, effect: 0.3, weather: 0.3, each: 30}.rows()
		s := minutes()
		s.CarryP = 1e-9
		whole := switched(t, rows, s)
		require.True(t, whole.Known, whole.Why)
		p := func(effect float64) float64 {
			moved := append([]evaluate.Served(nil), rows...)
			for i := range moved {
				if moved[i].Policy == "b" {
					moved[i].Outcome -= effect
				}
			}
			return switched(t, moved, s).P
		}
		const little = 1e-7
		assert.Greater(t, p(whole.Effect.Lo+little), 0.05)
		assert.Greater(t, p(whole.Effect.Hi-little), 0.05)
		assert.LessOrEqual(t, p(whole.Effect.Lo-little), 0.05)
		assert.LessOrEqual(t, p(whole.Effect.Hi+little), 0.05)
	}
}

func TestSwitchbackCoversTheTruth(t *testing.T) {
	for name, c := range map[string]struct {
		blocks int
		pairs  bool
	}{"exact": {12, false}, "drawn": {40, false}, "pairs": {24, true}} {
		inverted, student, runs := 0, 0, 100
		for seed := range uint64(runs) {
			s := minutes()
			s.Draws, s.CarryP = 1000, 1e-9
			if c.pairs {
				s.Design = evaluate.DesignPairs
			}
			got := switched(t, trial{seed: 1000 + seed, blocks: c.blocks, effect: -0.1, weather: 0.3, each: 20, pairs: c.pairs}.rows(), s)
			require.True(t, got.Known, got.Why)
			assert.Equal(t, c.blocks <= 20, got.Exact)
			inverted += covers(got.Effect, -0.1)
			student += covers(got.ByT, -0.1)
		}
		assert.GreaterOrEqual(t, inverted, 88, "%s: of 100 intervals of 95 %%", name)
		assert.GreaterOrEqual(t, student, 88, "%s, Student: of 100 intervals of 95 %%", name)
	}
}

func covers(e evaluate.Estimate, truth float64) int {
	if e.Lo <= truth && truth <= e.Hi {
		return 1
	}
	return 0
}

// TestExchangingThePolicies turns the effect round, and nothing else.
func TestExchangingThePolicies(t *testing.T) {
	rows := trial{seed: 7, blocks: 14, effect: 0.5, weather: 0.3, each: 30}.rows()
	s := minutes()
	s.CarryP = 1e-9
	one := switched(t, rows, s)
	s.A, s.B = s.B, s.A
	other := switched(t, rows, s)
	assert.InDelta(t, -one.Effect.Value, other.Effect.Value, 1e-12)
	assert.InDelta(t, -one.Effect.Lo, other.Effect.Hi, 1e-9)
	assert.InDelta(t, one.P, other.P, 1e-12)
	assert.InDelta(t, -one.ByT.Hi, other.ByT.Lo, 1e-12)
}

// TestCarryOver is found where effects outlast the burn-in, refused, and gone with a
// longer burn-in.
func TestCarryOver(t *testing.T) {
	found, right, falseAlarm := 0, 0, 0
	for seed := range uint64(20) {
		slow := trial{seed: 50 + seed, blocks: 40, effect: 1, weather: 0.1, lag: 10, each: 60}.rows()
		s := minutes()
		s.Draws = 1000
		if got := switched(t, slow, s); !got.Known {
			assert.Contains(t, got.Why, "burn-in")
			assert.True(t, math.IsNaN(got.Effect.Value))
			found++
		}
		s.BurnIn = 40
		if got := switched(t, slow, s); got.Known {
			right += covers(got.Effect, 1)
		}
		if !switched(t, trial{seed: 50 + seed, blocks: 40, effect: 1, weather: 0.1, each: 60}.rows(), s).Known {
			falseAlarm++
		}
	}
	assert.Equal(t, 20, found)
	assert.GreaterOrEqual(t, right, 16)
	assert.LessOrEqual(t, falseAlarm, 2)
}

func TestSwitchbackRefuses(t *testing.T) {
	few := switched(t, trial{seed: 1, blocks: 6, each: 40}.rows(), minutes())
	assert.Contains(t, few.Why, "3 blocks under a and 3 under b, 4 of each needed")
	assert.True(t, math.IsNaN(few.Effect.Value) && math.IsNaN(few.P))

	shifted := minutes()
	shifted.Origin = 30
	got := switched(t, trial{seed: 1, blocks: 20, each: 40}.rows(), shifted)
	assert.Contains(t, got.Why, "both policies")
	assert.False(t, got.Known)

	got = switched(t, trial{seed: 1, blocks: 20, each: 4}.rows(), minutes())
	assert.Contains(t, got.Why, "fewer than 10 requests")

	strict := minutes()
	strict.Level = 0.99
	got = switched(t, trial{seed: 1, blocks: 8, weather: 0.1, each: 40}.rows(), strict)
	assert.Contains(t, got.Why, "70 ways")
	assert.True(t, math.IsNaN(got.Effect.Value))

	rows := trial{seed: 1, blocks: 20, each: 40}.rows()
	rows = append(rows, evaluate.Served{At: 1, Policy: "c", Outcome: 1}, evaluate.Served{At: 2, Policy: "a", Outcome: math.NaN()})
	assert.Equal(t, 2, switched(t, rows, minutes()).Other)

	for _, bad := range []evaluate.Switchback{
		{A: "a", B: "a", Block: 1}, {A: "a", B: "b"}, {A: "a", B: "b", Block: 1, BurnIn: 1}, {A: "a", B: "b", Block: 1, Design: "latin"}, {B: "b", Block: 1},
	} {
		_, err := evaluate.Switch(nil, bad)
		assert.Error(t, err)
	}
}
