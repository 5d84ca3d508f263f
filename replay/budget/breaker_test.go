package budget

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

const minute = 60 // seconds: the window and the pause of these tests

// traffic is production on four workers and a link, with legs on the first.
type traffic struct {
	r       *rand.Rand
	b       *Breaker
	now     int64
	changes []Transition
}

func newTraffic(t testing.TB, seed uint64) *traffic {
	cfg := DefaultBreaker()
	cfg.WindowNanos, cfg.PauseNanos = minute*1e9, minute*1e9
	b, err := NewBreaker(cfg)
	require.NoError(t, err)
	return &traffic{r: rand.New(rand.NewPCG(seed, 1)), b: b, now: 1e18}
}

// run has seconds of traffic, ten requests a second, all slowed by load, those
// beside a leg by harm too. A leg of 2 s starts every 5 s where the breaker lets it.
func (w *traffic) run(seconds int, load, harm float64) {
	for s := range seconds {
		leg := Span{}
		if s%5 == 0 && w.b.Allows() {
			leg = Span{Worker: "w0", Start: w.now, End: w.now + 2e9}
			w.b.Ran(leg)
		}
		for i := range 10 {
			worker, slow := []string{"w0", "w1", "w2", "w3"}[i%4], load
			beside := worker == "w0" && w.busy()
			if beside {
				slow *= harm
			}
			at := w.now + int64(i)*1e8
			ttft := slow * 0.2 * math.Exp(0.3*w.r.NormFloat64())
			w.b.Observe(Seen{Start: at, End: at + int64(ttft*1e9), Worker: worker, Group: "fetch/2", TTFT: ttft})
		}
		w.now += 1e9
		if s%10 != 0 {
			continue
		}
		if c, ok := w.b.Look(w.now); ok {
			w.changes = append(w.changes, c)
		}
	}
}

func (w *traffic) busy() bool {
	spans := w.b.spans[place{false, "w0"}]
	return len(spans) > 0 && spans[len(spans)-1].End > w.now
}

func TestBreakerOpensWhereReplaysHurt(t *testing.T) {
	for seed := range uint64(5) {
		w := newTraffic(t, seed)
		w.run(2*minute, 1, 1)
		require.Empty(t, w.changes)
		w.run(minute, 1, 3)
		require.NotEmpty(t, w.changes)
		assert.Equal(t, [2]Phase{Closed, Open}, [2]Phase{w.changes[0].From, w.changes[0].To})
		assert.Greater(t, w.changes[0].Reading.P99, 1.5*w.changes[0].Reading.Baseline)
		assert.False(t, w.b.Allows())
		assert.EqualValues(t, 1, w.b.Opened())
	}
}

// TestBreakerIsNotOpenedByLoad: everybody is four times as slow, beside legs and
// away from them.
func TestBreakerIsNotOpenedByLoad(t *testing.T) {
	for seed := range uint64(5) {
		w := newTraffic(t, seed)
		w.run(2*minute, 1, 1)
		for _, load := range []float64{2, 4, 8, 1} {
			w.run(2*minute, load, 1)
		}
		assert.Empty(t, w.changes, "seed %d", seed)
	}
}

func TestBreakerTriesAgain(t *testing.T) {
	w := newTraffic(t, 1)
	w.run(2*minute, 1, 1)
	w.run(5*minute, 1, 4)
	phases := func() (out []Phase) {
		for _, c := range w.changes {
			out = append(out, c.To)
		}
		return out
	}
	require.GreaterOrEqual(t, len(w.changes), 3)
	assert.Equal(t, []Phase{Open, Trial, Open}, phases()[:3])
	w.run(10*minute, 1, 1)
	assert.Equal(t, Closed, phases()[len(w.changes)-1], "a trial that does no harm ends it")
	assert.True(t, w.b.Allows())
}

func TestATrialIsOneLeg(t *testing.T) {
	b, err := NewBreaker(DefaultBreaker())
	require.NoError(t, err)
	b.phase = Trial
	assert.True(t, b.Allows())
	b.Began("a", "w", "", 1)
	assert.False(t, b.Allows())
	b.Ended("a", 2)
	b.Ended("never began", 2)
	assert.True(t, b.Allows())
}

func TestBreakerKnowsLinksAndLegsUnderWay(t *testing.T) {
	b, err := NewBreaker(DefaultBreaker())
	require.NoError(t, err)
	b.Began("x", "w9", "fabric", 100)
	b.Ran(Span{Worker: "w1", Start: 10, End: 20})
	b.Ran(Span{Worker: "w1", Start: 15, End: 30})
	busy := b.busy(200)
	for name, c := range map[string]struct {
		seen Seen
		want bool
	}{
		"over the link of a leg under way": {Seen{Start: 150, End: 160, Worker: "w2", Link: "fabric"}, true},
		"before it":                        {Seen{Start: 50, End: 60, Link: "fabric"}, false},
		"between":                          {Seen{Start: 25, End: 26, Worker: "w1"}, true},
		"after":                            {Seen{Start: 31, End: 40, Worker: "w1"}, false},
		"around":                           {Seen{Start: 1, End: 400, Worker: "w1"}, true},
		"elsewhere":                        {Seen{Start: 150, End: 160, Worker: "w2"}, false},
	} {
		assert.Equal(t, c.want, busy.meets(&c.seen), name)
	}
}

func TestBreakerOffAndRefused(t *testing.T) {
	off, err := NewBreaker(BreakerConfig{})
	require.NoError(t, err)
	off.Observe(Seen{TTFT: 1})
	_, turned := off.Look(1)
	assert.False(t, turned)
	assert.True(t, off.Allows())
	for _, c := range []BreakerConfig{{Factor: 0.5}, {Factor: 2}, {Factor: 2, WindowNanos: 1, PauseNanos: 1}, {Factor: math.NaN()}} {
		_, err := NewBreaker(c)
		assert.Error(t, err, "%+v", c)
	}
}

func TestAtLeastIsTheBinomialTail(t *testing.T) {
	for _, n := range []int{1, 20, 500, 20_000} {
		for _, k := range []int{0, 1, 2, 7} {
			want := 1.0
			if k > 0 {
				want = 1 - distuv.Binomial{N: float64(n), P: tail}.CDF(float64(k-1))
			}
			assert.InDelta(t, want, atLeast(k, n, tail), 1e-9, "%d of %d", k, n)
		}
	}
}

func TestBreakerForgets(t *testing.T) {
	w := newTraffic(t, 1)
	w.run((baselines+3)*minute, 1, 1)
	assert.LessOrEqual(t, len(w.b.seen), 10*(baselines*minute+20))
	assert.LessOrEqual(t, len(w.b.spans[place{false, "w0"}]), baselines*minute/5+5)
}
