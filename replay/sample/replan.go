package sample

import (
	"fmt"
	"math"
)

// Count is what was seen of a stratum.
type Count struct {
	Stratum   Stratum
	Decisions float64 // expected over the next window
	SD        float64 // of ỹ* − m_b among its legs, seconds; NaN or 0 where not known
	Cost      float64 // of a leg, GPU-seconds
}

// Replan gives the next version of the plan, which spends budget GPU-seconds a
// window by Neyman's allocation with costs: rate ∝ SD/√cost, within [MinRate,
// 1]. Strata that counts does not name keep the default rate. Where the least
// rates cost more than the budget, the result is all at their least: the token
// buckets then hold the spending, never a rate of zero.
func (p *Plan) Replan(counts []Count, budget float64) (*Plan, error) {
	if !(budget > 0) {
		return nil, fmt.Errorf("replan: the budget is %v GPU-seconds, it must be above 0", budget)
	}
	next := p.Params()
	next.Version++
	next.Rates = make(map[string]float64, len(counts))
	wish := wishes(counts)
	scale := p.scale(counts, wish, budget)
	for i, c := range counts {
		next.Rates[c.Stratum.String()] = p.clamp(scale * wish[i])
	}
	return New(next, p.salt)
}

// wishes are the unscaled rates. A stratum whose spread is not known yet is
// given the largest known, so that it is learnt.
func wishes(counts []Count) []float64 {
	widest := 0.0
	for _, c := range counts {
		if c.SD > widest {
			widest = c.SD
		}
	}
	if widest == 0 {
		widest = 1
	}
	out := make([]float64, len(counts))
	for i, c := range counts {
		sd := c.SD
		if !(sd > 0) {
			sd = widest
		}
		out[i] = sd / math.Sqrt(math.Max(c.Cost, 1e-6))
	}
	return out
}

// scale finds by bisection the factor at which the clamped rates cost budget.
func (p *Plan) scale(counts []Count, wish []float64, budget float64) float64 {
	low, high := 0.0, 1.0
	for i := range wish {
		high = math.Max(high, 2/wish[i])
	}
	for range 100 {
		mid, spent := (low+high)/2, 0.0
		for i, c := range counts {
			spent += p.clamp(mid*wish[i]) * c.Decisions * c.Cost
		}
		if spent > budget {
			high = mid
		} else {
			low = mid
		}
	}
	return low
}

func (p *Plan) clamp(rate float64) float64 {
	return math.Min(1, math.Max(p.params.MinRate, rate))
}
