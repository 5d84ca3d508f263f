package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Rules say what is enough. The zero value means DefaultRules.
type Rules struct {
	MinN       int     // cases that a slice needs
	MinShare   float64 // of all cases, from which on a slice matters
	Confidence float64 // of the intervals, two-sided
	Tolerance  float64 // a slice may be worse by this share of the champion's error
	MaxError   float64 // mean relative error that a first document may have
}

// DefaultRules is what a calibration job runs with.
var DefaultRules = Rules{MinN: 50, MinShare: 0.02, Confidence: 0.9, Tolerance: 0.05, MaxError: 0.35}

// leastGain is the share of the champion's error below which a gain is nothing: a
// refit of the same requests differs in its last digits, and always to one side.
const leastGain = 0.001

// Outcome is how a slice came out.
type Outcome string

// The outcomes of a slice.
const (
	Better Outcome = "better"  // the interval of the gain is above 0, and the gain above leastGain
	Same   Outcome = "same"    // not worse by more than the tolerance
	Worse  Outcome = "worse"   // may be worse by more than the tolerance
	TooFew Outcome = "too few" // too little data
	NoLaw  Outcome = "no law"  // the challenger says nothing of what the champion predicts
	Within Outcome = "within"  // no champion: error within the bound
	Beyond Outcome = "beyond"  // no champion: error beyond the bound
	Minor  Outcome = "minor"   // a slice that does not matter
)

// Passed says that the slice did not speak against the challenger.
func (o Outcome) Passed() bool { return o == Better || o == Same || o == Within || o == Minor }

// SliceVerdict is one slice's figures. Errors are mean relative errors of TTFT,
// the gain the mean of the paired difference, champion's less challenger's.
type SliceVerdict struct {
	Slice           Slice
	N               int
	ChampionError   float64 // NaN without a champion
	ChallengerError float64
	Gain, Low, High float64
	Outcome         Outcome
}

// Verdict is what the gate says. Reason is for people, and always there.
type Verdict struct {
	Publish bool
	Reason  string
	N       int
	Slices  []SliceVerdict // most cases first
}

// Judge holds the challenger of cases against the champion, or, where there is
// none, against the bound.
func Judge(cases []Case, champion bool, rules Rules) Verdict {
	if rules == (Rules{}) {
		rules = DefaultRules
	}
	out := Verdict{N: len(cases)}
	for _, group := range bySlice(cases) {
		s := judgeSlice(group, champion, rules)
		if float64(len(group)) < rules.MinShare*float64(len(cases)) {
			s.Outcome = Minor
		}
		out.Slices = append(out.Slices, s)
	}
	out.Publish, out.Reason = conclude(out.Slices, champion, rules)
	return out
}

func bySlice(cases []Case) [][]Case {
	groups := map[Slice][]Case{}
	for _, c := range cases {
		groups[c.Slice] = append(groups[c.Slice], c)
	}
	out := make([][]Case, 0, len(groups))
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b Case) int { return cmp.Compare(a.AtNanos, b.AtNanos) })
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b []Case) int {
		x, y := a[0].Slice, b[0].Slice
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(x.Path, y.Path), cmp.Compare(x.Size, y.Size), cmp.Compare(x.Link, y.Link))
	})
	return out
}

func judgeSlice(group []Case, champion bool, rules Rules) SliceVerdict {
	s := SliceVerdict{Slice: group[0].Slice, ChampionError: math.NaN(), Gain: math.NaN(), Low: math.NaN(), High: math.NaN()}
	var gains, olds, news []float64
	lost := 0
	for _, c := range group {
		fresh := math.Abs(c.Challenger-c.Observed) / c.Observed
		old := math.Abs(c.Champion-c.Observed) / c.Observed
		switch {
		case math.IsNaN(fresh) && !math.IsNaN(old):
			lost++
		case math.IsNaN(fresh):
		case !champion:
			news = append(news, fresh)
		case !math.IsNaN(old):
			news, olds, gains = append(news, fresh), append(olds, old), append(gains, old-fresh)
		}
	}
	s.N, s.ChallengerError = len(news), mean(news)
	if champion {
		s.ChampionError, s.Gain = mean(olds), mean(gains)
		s.Low, s.High = interval(gains, rules.Confidence)
	}
	s.Outcome = s.outcome(lost, champion, rules)
	return s
}

func (s *SliceVerdict) outcome(lost int, champion bool, rules Rules) Outcome {
	switch {
	case lost*20 > s.N+lost:
		return NoLaw
	case s.N < rules.MinN:
		return TooFew
	case !champion && s.ChallengerError <= rules.MaxError:
		return Within
	case !champion:
		return Beyond
	case s.Low > 0 && s.Gain > leastGain*s.ChampionError:
		return Better
	case s.Low >= -rules.Tolerance*s.ChampionError:
		return Same
	}
	return Worse
}

func conclude(all []SliceVerdict, champion bool, rules Rules) (bool, string) {
	material, better := 0, 0
	for _, s := range all {
		switch s.Outcome {
		case Minor:
			continue
		case TooFew:
			return false, fmt.Sprintf("%s has %d held-out requests, fewer than %d: widen the window", s.Slice, s.N, rules.MinN)
		case NoLaw:
			return false, fmt.Sprintf("%s: the challenger has no law where the champion predicts", s.Slice)
		case Worse:
			return false, fmt.Sprintf("%s: the challenger may be worse: error %.1f %% against %.1f %%, gain %.1f to %.1f points",
				s.Slice, 100*s.ChallengerError, 100*s.ChampionError, 100*s.Low, 100*s.High)
		case Beyond:
			return false, fmt.Sprintf("%s: error %.1f %% is over the bound of %.1f %% for a first document", s.Slice, 100*s.ChallengerError, 100*rules.MaxError)
		case Better:
			better++
		}
		material++
	}
	switch {
	case material == 0:
		return false, "no slice has enough held-out requests"
	case champion && better == 0:
		return false, fmt.Sprintf("the challenger is not better beyond chance on any of %d slices", material)
	case champion:
		return true, fmt.Sprintf("better on %d of %d slices, not worse on the rest", better, material)
	}
	return true, fmt.Sprintf("no champion; errors are within %.0f %% on %d slices", 100*rules.MaxError, material)
}

// String names the slice for people.
func (s Slice) String() string {
	name := s.Path + " " + schema.SizeBucketName(s.Size)
	if s.Link != "" {
		name += " over " + s.Link
	}
	return name
}

// intervalBlocks of time stand for one draw each, for errors that follow each
// other closely are alike.
const intervalBlocks = 20

// interval is of the mean of v, which is in order of time: Student's t over means
// of blocks of time.
func interval(v []float64, confidence float64) (low, high float64) {
	k := min(intervalBlocks, len(v)/2)
	if k < 2 {
		return math.Inf(-1), math.Inf(1)
	}
	blocks := make([]float64, k)
	for b := range k {
		blocks[b] = mean(v[b*len(v)/k : (b+1)*len(v)/k])
	}
	m, sum := mean(blocks), 0.0
	for _, b := range blocks {
		sum += (b - m) * (b - m)
	}
	se := math.Sqrt(sum / float64(k-1) / float64(k))
	t := distuv.StudentsT{Sigma: 1, Nu: float64(k - 1)}.Quantile(0.5 + confidence/2)
	return m - t*se, m + t*se
}

func mean(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
