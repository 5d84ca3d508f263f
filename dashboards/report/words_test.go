package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSeconds(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0 ms", 0.412: "412 ms", 0.0042: "4.2 ms", 0.00042: "0.42 ms", 0.00004249: "0.042 ms", 9.87: "9,870 ms", -0.003: "−3 ms",
		10: "10 s", 12.44: "12.4 s", 1234: "1,234 s", 4.1e12: "4.1×10¹² s", 1e-9: "0 ms", -9e-7: "0 ms", -1.2e-6: "−0.0012 ms", math.Inf(1): "unknown", math.NaN(): "unknown",
	} {
		require.Equal(t, want, breakable(seconds(v)))
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{-0.47, -0.35, "350 to 470 ms slower"},
		{0.161, 0.213, "161 to 213 ms faster"},
		{-0.02, 0.045, "20 ms slower to 45 ms faster"},
		{0, 0.1, "no difference to 100 ms faster"},
		{9, 32, "9 to 32 s faster"},
		{-3e-16, 2e-9, "no difference"},
		{-14, 0.5, "14 s slower to 500 ms faster"},
	} {
		require.Equal(t, c.want, breakable(span(c.low, c.high)))
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "unknown"}, {0, 9, "0 %"}, {9, 9, "100 %"}, {1, 3, "33.3 %"}, {1, 100000, "under 0.1 %"}, {99999, 100000, "over 99.9 %"}, {10, 9, "over 100 %"}, {1, -1, "unknown"},
	} {
		require.Equal(t, c.want, breakable(share(c.part, c.whole)))
	}
}

func TestWall(t *testing.T) {
	for v, want := range map[float64]string{0: "unknown", -1: "unknown", 12.4: "12.4 s", 200: "3 min 20 s", 7260: "2 h 1 min"} {
		require.Equal(t, want, breakable(wall(v)))
	}
	require.Equal(t, "unknown", moment(time.Time{}))
}

func TestShown(t *testing.T) {
	up, down, across := ci(0.2, 0.1, 0.3, 50), ci(-0.2, -0.3, -0.1, 50), ci(0.01, -0.1, 0.12, 50)
	for name, c := range map[string]struct {
		v    Verdict
		want State
	}{
		"helping":                             {Verdict{State: Helping, Own: up}, Helping},
		"hurting":                             {Verdict{State: Hurting, Own: down}, Hurting},
		"even":                                {Verdict{State: Even, Own: across}, Even},
		"even without an interval":            {Verdict{State: Even, Own: prediction(0)}, Unknown},
		"said to help, interval includes 0":   {Verdict{State: Helping, Own: across}, Unknown},
		"said to help, measured to hurt":      {Verdict{State: Helping, Own: down}, Unknown},
		"said to help, nothing measured":      {Verdict{State: Helping}, Unknown},
		"a prediction is no measurement":      {Verdict{State: Helping, Own: prediction(1)}, Unknown},
		"the prediction of others turns it":   {Verdict{State: Helping, Own: up, Others: prediction(-1), Net: prediction(-0.8)}, Unknown},
		"the prediction of others agrees":     {Verdict{State: Helping, Own: up, Others: prediction(1), Net: prediction(1.2)}, Helping},
		"net with an interval decides":        {Verdict{State: Hurting, Own: up, Others: down, Net: down}, Hurting},
		"net with an interval, state of own":  {Verdict{State: Helping, Own: up, Others: down, Net: down}, Unknown},
		"said to be unknown stays so":         {Verdict{State: Unknown, Own: up}, Unknown},
		"a state of another version":          {Verdict{State: "improving", Own: up}, Unknown},
		"an interval that is not a number":    {Verdict{State: Helping, Own: ci(math.NaN(), 1, 2, 3)}, Unknown},
		"an interval whose bounds are turned": {Verdict{State: Helping, Own: ci(1, 2, 0.5, 3)}, Unknown},
	} {
		require.Equal(t, c.want, c.v.Shown(), name)
		if c.want == Unknown {
			require.NotEmpty(t, c.v.Why(), name)
			require.Contains(t, c.v.Say(), "it is unknown", name)
			require.NotContains(t, c.v.Do(), "Keep", name)
		}
	}
}

func TestSay(t *testing.T) {
	v := sampleVerdicts()[0]
	require.Equal(t, "On link busy, fetching made requests 412 ms slower than recomputing would have been (95 % interval 350 to 470 ms slower; 214 replays of 5,012 fetched requests). "+
		"Each also cost other requests 30 ms of delay (predicted).", v.Say())
	v = Verdict{Path: "resident", Alternative: "recompute", Requests: 1, Replays: 1, Reason: "too few."}
	require.Equal(t, "Over all links, it is unknown whether using what was resident helps against recomputing: too few (1 replay of 1 resident request).", v.Say())
}

func TestStagesAreCheckedForTheirSum(t *testing.T) {
	good := sampleStages()
	require.True(t, newBars(good).Holds)
	bad := sampleStages()
	bad[1].Restore += 0.004
	b := newBars(bad)
	require.False(t, b.Holds)
	require.Contains(t, b.Sums, "1 row do")
	require.Equal(t, "off by 4 ms", breakable(b.Rows[1].Sum))
	bad[0].TTFT = math.NaN()
	require.Contains(t, newBars(bad).Sums, "2 rows do")
}

// TestBarsFillWhatTheyShow holds that the drawn widths are to scale.
func TestBarsFillWhatTheyShow(t *testing.T) {
	s := stageScale(sampleStages())
	require.InDelta(t, -0.02, s.min, 1e-12, "room for a negative remainder")
	require.InDelta(t, 0, s.at(s.min), 1e-9)
	require.InDelta(t, 100, s.at(s.max), 1e-9)
	require.Equal(t, 50.0, scale{}.at(1), "a plot of nothing")
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for _, s := range []scale{{-1, 1}, {0, 0.0003}, {-470, 3}, {0, 1e15}, {-1e-9, 1e-9}} {
		ticks := s.ticks(seconds)
		require.NotEmpty(t, ticks)
		require.LessOrEqual(t, len(ticks), 5)
		for _, tick := range ticks {
			require.NotContains(t, tick.Label, "999")
		}
	}
	require.Empty(t, scale{}.ticks(seconds))
}

func TestAAIsSaidInWords(t *testing.T) {
	a := Arm{AA: true, Gain: ci(0, -1, 1, 9)}
	require.Contains(t, sayAA(&a), "covers no difference, as it must")
	a.Gain = ci(2, 1, 3, 9)
	require.Contains(t, sayAA(&a), "does NOT cover")
	a.Gain = nil
	require.Contains(t, sayAA(&a), "has no interval")
}

func TestTextHoldsNoEscapesAndFits(t *testing.T) {
	d := hostile()
	d.Verdicts[0].Link = "a\x1b[31mb\u009b2J\n\rc"
	text := Text(d)
	for _, r := range text {
		require.False(t, r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0, "control character %x", r)
	}
	for _, line := range strings.Split(Text(sample()), "\n") {
		require.LessOrEqual(t, len([]rune(line)), 80, line)
	}
}

func TestUnknownSideQuestionsAreFolded(t *testing.T) {
	d := many()
	text := render(t, d)
	require.Contains(t, text, "8 more comparisons are unknown")
	require.Equal(t, 12, strings.Count(text, `<article class="card`)+strings.Count(text, `<tr role="row" class="verdict"`), "folded is not left out")
	require.Contains(t, Text(d), "8 more comparisons are unknown")
	headline := Data{Verdicts: make([]Verdict, 5)}
	for i := range headline.Verdicts {
		headline.Verdicts[i] = Verdict{Path: "fetch", Alternative: "recompute"}
	}
	require.NotContains(t, render(t, headline), "more comparisons", "the headline is never folded")
	require.Equal(t, 5, strings.Count(render(t, headline), `<article class="card`))
}

// TestManyLinks holds that a fleet of a hundred links has a page that can be read.
func TestManyLinks(t *testing.T) {
	d := fleet()
	text := render(t, d)
	require.Equal(t, maxHeadlines, strings.Count(text, `<article class="card`))
	require.Equal(t, 100, strings.Count(text, `<article class="card`)+strings.Count(text, `<tr role="row" class="verdict"`))
	require.Contains(t, text, "More links")
	require.Less(t, strings.Count(Text(d), "\n"), 140)
}

// TestWithoutATruth is a report of production: its estimates are shown, and
// nothing is said of a simulator.
func TestWithoutATruth(t *testing.T) {
	d := sample()
	for i := range d.Truths {
		d.Truths[i].Truth = Number{}
	}
	d.Truths = d.Truths[:2]
	text := render(t, d)
	require.Contains(t, text, "No truth: only a simulation knows")
	require.Contains(t, text, "1 pair, by every estimator")
	require.NotContains(t, text, "The simulator forks")
	require.NotContains(t, text, "Not judged")
	require.NotContains(t, text, "inside</span>")
}

func TestOtherRequestsAreApart(t *testing.T) {
	v := newTruth(sampleTruths())
	require.Len(t, v.Pairs, 1)
	require.Len(t, v.NotJudged, 1)
	require.Equal(t, "3 legs came back", v.NotJudged[0].Why)
	require.Len(t, v.Others, 1)
	require.Equal(t, "2,900 ms", breakable(v.Others[0].Off))
	require.Equal(t, "1 of 1 interval of the estimator that verdicts use holds the truth. 1 pair could not be judged, for want of an interval or a truth.", v.Inside)
}

func TestLegsWithoutAPlan(t *testing.T) {
	v := newTrust(Coverage{Legs: []Legs{{Size: "≤512", Leg: "control", Executed: 3}}})
	require.False(t, v.Intended)
	require.False(t, v.Even)
	require.True(t, newTrust(sampleCoverage()).Intended)
	require.Contains(t, newTrust(Coverage{}).Dead, "Nobody counted")
	require.Equal(t, "0 dead letters in the topic kvreuse.dead.", newTrust(Coverage{Dead: Num(0)}).Dead)
}

func TestCoefficient(t *testing.T) {
	for _, c := range []struct {
		v    float64
		e    Number
		unit string
		want string
	}{
		{1.88e-5, Num(2.27e-8), "s a token", "18.8 ± 0.023 µs a token"},
		{1.51e-10, Num(1.52e-12), "s a token²", "151 ± 1.5 ps a token²"},
		{0.0435, Number{}, "s a prefill", "43.5 ms a prefill"},
		{5e10, Num(37.7), "bytes/s", "50 GB/s ± 37.7 B/s"},
		{1.07, Num(0.000656), "s a second reported", "1.07 ± 0.00066 s a second reported"},
		{0, Num(0.1), "s", "0 ± 0.1 s"},
		{-0.002, Number{}, "", "−0.002"},
	} {
		require.Equal(t, c.want, breakable(coefficient(c.v, c.e, c.unit)))
	}
}

func TestFittedScale(t *testing.T) {
	s := fitted(ci(0.43, 0.1, 0.76, 9), ci(0.64, 0.29, 0.99, 9))
	require.InDelta(t, 0.99, s.max/1.06, 1e-9, "it holds all of them")
	require.Less(t, -s.min, 0.1, "and nothing on the side where none is")
	one, wide := ci(0, -1, 1, 9), ci(0, -1e6, 1, 9)
	require.True(t, markOf(fitted(one, one, one, wide), wide, "x").CutLow, "one that is far wider is cut")
	require.False(t, markOf(symmetric(ci(0, -0.06, 0.06, 9), one), one, "x").CutLow, "of two both are whole")
	require.Equal(t, scale{}, fitted(nil, nil))
}

func TestTimesOfATableHaveOneUnit(t *testing.T) {
	word := oneUnit(Num(12.1), Num(0.889), Number{})
	require.Equal(t, "0.89 s", breakable(word(Num(0.889))))
	require.Equal(t, "unknown", word(Number{}))
	require.Equal(t, "889 ms", breakable(oneUnit(Num(0.889))(Num(0.889))))
}

func TestContestsSayTheGatesWord(t *testing.T) {
	v := newContests([]Contest{{Slice: "a", Outcome: "within", Passed: true}, {Slice: "b", Outcome: "minor", Passed: true}, {Slice: "c", Outcome: "worse"}, {Slice: "d", Outcome: "of a later version"}, {Slice: "e"}})
	require.False(t, v.Champion)
	require.Len(t, v.Minor, 1)
	words := []string{}
	for _, r := range v.Rows {
		words = append(words, r.Result)
	}
	require.Equal(t, []string{"within the bound", "maybe worse", "of a later version", "did not pass"}, words)
	require.True(t, newContests(sampleCalibration().Challenges).Champion)
}

func TestMissingIsSaid(t *testing.T) {
	require.Equal(t, []string{"not measured", "not predicted"}, missing(&Benefit{Requests: 9, Unknown: 9, Unmeasured: Num(0)}))
	require.Equal(t, []string{"nothing"}, missing(&Benefit{Requests: 9, Measured: ci(1, 0, 2, 3), Predicted: prediction(1), Unmeasured: Num(0)}))
}
