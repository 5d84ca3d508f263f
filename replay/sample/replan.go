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
	Bytes     float64 // that a leg moves
}

// Funds are what legs may cost over the next window.
type Funds struct {
	GPUSeconds float64
	Bytes      float64 // 0: no limit
}

// Replan gives the next version of the plan, which spends at most the funds of a
// window by Neyman's allocation with costs: rate ∝ SD/√cost, within [MinRate,
// 1]. Strata that counts does not name keep the default rate. Where the least
// rates cost more than the budget, the result is all at their least: the token
// buckets then hold the spending, never a rate of zero.
func (p *Plan) Replan(counts []Count, funds Funds) (*Plan, error) {
	if !(funds.GPUSeconds > 0) || !(funds.Bytes >= 0) {
		return nil, fmt.Errorf("replan: the budget is %v GPU-seconds and %v bytes: the first must be above 0, the second not below", funds.GPUSeconds, funds.Bytes)
	}
	next := p.Params()
	next.Version++
	next.Rates = make(map[string]float64, len(counts))
	wish := wishes(counts)
	scale := p.scale(counts, wish, funds)
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

// scale finds by bisection the factor at which the clamped rates cost what there
// is.
func (p *Plan) scale(counts []Count, wish []float64, funds Funds) float64 {
	low, high := 0.0, 1.0
	for i := range wish {
		high = math.Max(high, 2/wish[i])
	}
	for range 100 {
		mid := (low + high) / 2
		var spent Funds
		for i, c := range counts {
			legs := p.clamp(mid*wish[i]) * c.Decisions
			spent.GPUSeconds += legs * c.Cost
			spent.Bytes += legs * c.Bytes
		}
		if spent.GPUSeconds > funds.GPUSeconds || (funds.Bytes > 0 && spent.Bytes > funds.Bytes) {
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
