package evaluate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
)

// Logged is one outcome of a policy that logged its propensities, and what the
// policy to be valued would have done there.
type Logged struct {
	Block       int64   // of time
	Outcome     float64 // y, in any unit
	Propensity  float64 // of what was done, above 0 to 1
	Target      float64 // probability with which the other policy does the same
	ModelTaken  float64 // m of what was done; 0 without a model
	ModelTarget float64 // Σ over all that can be done of the other policy's probability times m
	Unsupported float64 // share of the other policy's choice that the logging one never makes (propensity 0)
}

// Limits are those below which an estimate is refused. The zero value of each field
// means its default.
type Limits struct {
	Level       float64 // of the intervals; 0.95
	MinMatches  int     // outcomes that the other policy could have given; 30
	MinESS      float64 // effective sample size of the weights; 20
	MaxTail     float64 // Pareto k of the weights; 0.7
	MaxWeight   float64 // share of one weight in their sum; 0.2
	MaxUnknown  float64 // share of the policy's choices that cannot be valued; 0.05
	MinBlocks   int     // blocks of time below which outcomes are taken as independent; 10
	MaxMeanLoss float64 // how far the mean weight may lie from 1; 0.2, and 4 standard errors
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		v *float64
		d float64
	}{{&l.Level, 0.95}, {&l.MinESS, 20}, {&l.MaxTail, 0.7}, {&l.MaxWeight, 0.2}, {&l.MaxUnknown, 0.05}, {&l.MaxMeanLoss, 0.2}} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	if l.MinMatches == 0 {
		l.MinMatches = 30
	}
	if l.MinBlocks == 0 {
		l.MinBlocks = 10
	}
	return l
}

// Estimate is a number with its interval. All are NaN where it is not known.
type Estimate struct {
	Value  float64
	SE     float64
	Lo, Hi float64
}

func unknown() Estimate {
	nan := math.NaN()
	return Estimate{nan, nan, nan, nan}
}

func around(value, variance, level, df float64) Estimate {
	se := math.Sqrt(variance)
	half := 0.0
	if se > 0 {
		half = se * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Max(1, df)}.Quantile(1-(1-level)/2)
	}
	return Estimate{value, se, value - half, value + half}
}

// Weighted is the other policy's value by logged propensities.
type Weighted struct {
	Known bool
	Why   string // why not, where Known is false

	IPW, SNIPW, DR Estimate // DR is IPW's with a model, and equal to it where the model is 0
	Direct         float64  // mean of the model alone: right only where that is
	Logged         Estimate // mean outcome of the policy that logged
	Change         Estimate // DR less Logged, as one estimate

	N           int     // outcomes
	Matches     int     // of them, those that the other policy could have given
	Blocks      int     // of time that the intervals are of; 0: outcomes as independent
	ESS         float64 // (Σw)²/Σw²
	MeanWeight  float64 // 1 but for chance, where every propensity is right
	MaxWeight   float64 // largest as a share of their sum
	ParetoK     float64 // tail index of the weights; NaN where they have no tail
	Unsupported float64 // share of the other policy's choices that were never made
}

// Weigh values a policy by the propensities that another one logged: with w =
// Target/Propensity, IPW = mean(w·y), SNIPW = Σ(w·y)/Σw and DR = mean(m_d + w·(y −
// m_A)) (Dudík, Langford and Li 2011). Rows with a value that cannot be are an
// error; too little support is a refusal.
func Weigh(rows []Logged, limits Limits) (Weighted, error) {
	limits = limits.withDefaults()
	out := Weighted{N: len(rows), IPW: unknown(), SNIPW: unknown(), DR: unknown(), Logged: unknown(), Change: unknown(), Direct: math.NaN(), ParetoK: math.NaN(), MeanWeight: math.NaN()}
	for i := range rows {
		if err := rows[i].check(); err != nil {
			return out, fmt.Errorf("outcome %d: %w", i, err)
		}
	}
	w := out.weights(rows)
	if out.Why = out.refusal(w, limits); out.Why != "" {
		return out, nil
	}
	out.Known = true
	out.fill(rows, w, limits)
	return out, nil
}

func (r *Logged) check() error {
	probability := func(x float64) bool { return x >= 0 && x <= 1+1e-9 }
	switch {
	case !(r.Propensity > 0) || !probability(r.Propensity):
		return fmt.Errorf("its propensity is %v: what was done has one above 0 and up to 1", r.Propensity)
	case !probability(r.Target) || !probability(r.Unsupported):
		return fmt.Errorf("the other policy's probabilities are %v and %v: they lie from 0 to 1", r.Target, r.Unsupported)
	case !finite(r.Outcome) || !finite(r.ModelTaken) || !finite(r.ModelTarget):
		return fmt.Errorf("outcome %v, predictions %v and %v: leave out what is not known", r.Outcome, r.ModelTaken, r.ModelTarget)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// weights also describes them.
func (out *Weighted) weights(rows []Logged) []float64 {
	w := make([]float64, len(rows))
	sum, squares, largest := 0.0, 0.0, 0.0
	var matching []float64
	for i := range rows {
		w[i] = rows[i].Target / rows[i].Propensity
		sum, squares, largest = sum+w[i], squares+w[i]*w[i], math.Max(largest, w[i])
		out.Unsupported += rows[i].Unsupported / float64(len(rows))
		if w[i] > 0 {
			out.Matches++
			matching = append(matching, w[i])
		}
	}
	if sum > 0 {
		out.ESS, out.MaxWeight, out.MeanWeight = sum*sum/squares, largest/sum, sum/float64(len(rows))
	}
	out.ParetoK = estimate.TailIndex(matching)
	return w
}

func (out *Weighted) refusal(w []float64, l Limits) string {
	switch {
	case out.N == 0:
		return "no outcome with a logged propensity: let the deployed policy explore, and log candidate.propensity"
	case out.Unsupported > l.MaxUnknown:
		return fmt.Sprintf("%.0f %% of what the policy would do was never done (propensity 0): let the deployed policy explore", 100*out.Unsupported)
	case out.Matches < l.MinMatches:
		return fmt.Sprintf("the policy agrees with %d logged choices, %d needed: explore more, or wait", out.Matches, l.MinMatches)
	case out.ESS < l.MinESS:
		return fmt.Sprintf("the agreeing choices are worth %.1f equal ones, %.0f needed: their propensities differ too much", out.ESS, l.MinESS)
	case out.MaxWeight > l.MaxWeight:
		return fmt.Sprintf("one choice is %.0f %% of all the weight: explore more", 100*out.MaxWeight)
	case out.ParetoK > l.MaxTail:
		return fmt.Sprintf("a few choices of tiny propensity decide the result (Pareto k %.2f): raise the least propensity", out.ParetoK)
	}
	variance := 0.0
	for _, x := range w {
		variance += (x - out.MeanWeight) * (x - out.MeanWeight)
	}
	n := float64(out.N)
	if off := math.Abs(out.MeanWeight - 1); off > l.MaxMeanLoss && off > 4*math.Sqrt(variance)/n {
		return fmt.Sprintf("the mean weight is %.2f and should be 1: the logged propensities are not those of the choices", out.MeanWeight)
	}
	return ""
}

func (out *Weighted) fill(rows []Logged, w []float64, l Limits) {
	n := float64(len(rows))
	y, ipw, dr, change := make([]float64, len(rows)), make([]float64, len(rows)), make([]float64, len(rows)), make([]float64, len(rows))
	direct, sum := 0.0, 0.0
	for i := range rows {
		r := &rows[i]
		y[i], ipw[i] = r.Outcome, w[i]*r.Outcome
		dr[i] = r.ModelTarget + w[i]*(r.Outcome-r.ModelTaken)
		change[i] = dr[i] - y[i]
		direct += r.ModelTarget / n
		sum += w[i]
	}
	block := blocksOf(rows, l.MinBlocks)
	if block != nil {
		out.Blocks = count(block)
	}
	out.Direct = direct
	out.Logged, out.IPW = meanOf(y, block, l.Level), meanOf(ipw, block, l.Level)
	out.DR, out.Change = meanOf(dr, block, l.Level), meanOf(change, block, l.Level)
	ratio := total(ipw) / sum
	linear := make([]float64, len(rows)) // of the ratio, by its first derivative
	for i := range rows {
		linear[i] = w[i] * (y[i] - ratio) * n / sum
	}
	e := meanOf(linear, block, l.Level)
	out.SNIPW = Estimate{ratio, e.SE, ratio + e.Lo - e.Value, ratio + e.Hi - e.Value}
}

// blocksOf is the block of each row, nil where there are too few for an interval.
func blocksOf(rows []Logged, enough int) []int64 {
	out := make([]int64, len(rows))
	for i := range rows {
		out[i] = rows[i].Block
	}
	if count(out) < enough {
		return nil
	}
	return out
}

func count(block []int64) int {
	seen := map[int64]bool{}
	for _, b := range block {
		seen[b] = true
	}
	return len(seen)
}

func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// meanOf is the mean with its interval: over blocks of time, or of independent
// values where block is nil.
func meanOf(x []float64, block []int64, level float64) Estimate {
	n := float64(len(x))
	mean := total(x) / n
	if block == nil {
		v := 0.0
		for _, xi := range x {
			v += (xi - mean) * (xi - mean)
		}
		return around(mean, v/(n*math.Max(1, n-1)), level, n-1)
	}
	at, sums := map[int64]int{}, []float64(nil)
	for i, xi := range x {
		j, ok := at[block[i]]
		if !ok {
			j = len(sums)
			at[block[i]], sums = j, append(sums, 0)
		}
		sums[j] += xi - mean
	}
	v, k := 0.0, float64(len(sums))
	for _, s := range sums {
		v += s * s
	}
	return around(mean, v/(n*n)*k/(k-1), level, k-1)
}
