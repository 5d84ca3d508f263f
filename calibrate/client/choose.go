package client

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// choose sets d.Chosen and every Propensity.
func (l *laws) choose(r *Request, out []Prediction, d *Decision) {
	barred := Unpredictable | OverBudget
	best, feasible := l.best(out, barred)
	if feasible == 0 {
		d.Infeasible = true
		d.Chosen, d.Tied = fastest(r, out), 1
		out[d.Chosen].Propensity = 1
		return
	}
	limit := net(&out[best]) + l.tie*out[best].TTFT
	tied := 0
	for i := range out {
		if out[i].Flags&barred == 0 && net(&out[i]) <= limit {
			tied++
		}
	}
	d.Tied = tied
	among, each := l.explore/float64(feasible), (1-l.explore)/float64(tied)
	for i := range out {
		if out[i].Flags&barred == 0 {
			out[i].Propensity = among
			if net(&out[i]) <= limit {
				out[i].Propensity += each
			}
		}
	}
	d.Chosen = draw(out, best, toss(l.salt, r.Key))
}

// draw gives the candidate whose share of [0, 1), by propensity, coin falls in;
// best where a rounding leaves it in none.
func draw(out []Prediction, best int, coin float64) int {
	for i := range out {
		if coin < out[i].Propensity {
			return i
		}
		coin -= out[i].Propensity
	}
	return best
}

func net(p *Prediction) float64 { return p.TTFT + p.Externality }

// best is the candidate of the least TTFT + externality without any flag of
// barred, and how many have none.
func (l *laws) best(out []Prediction, barred Flags) (best, feasible int) {
	best = -1
	for i := range out {
		if out[i].Flags&barred != 0 {
			continue
		}
		feasible++
		if best < 0 || net(&out[i]) < net(&out[best]) {
			best = i
		}
	}
	return best, feasible
}

// fastest is the candidate of the least TTFT; where no TTFT is a number, the one
// that moves the fewest bytes.
func fastest(r *Request, out []Prediction) int {
	best, fewest := -1, 0
	for i := range out {
		if t := out[i].TTFT; !math.IsNaN(t) && (best < 0 || t < out[best].TTFT) {
			best = i
		}
		if r.Candidates[i].Bytes < r.Candidates[fewest].Bytes {
			fewest = i
		}
	}
	if best < 0 {
		return fewest
	}
	return best
}

// toss gives a number in [0, 1) by salt and key: splitmix64, by S. Vigna.
func toss(salt, key uint64) float64 {
	x := key + salt*0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// AppendSplits appends to dst the candidates that how much to fetch gives rise to:
// all of c.Fetched, half of it (in whole blocks of block tokens), and none, which
// is a recompute on the same worker. What is not fetched of a prefix is computed,
// its beginning is what is kept.
func AppendSplits(dst []Candidate, c Candidate, block int64) []Candidate {
	dst = append(dst, c)
	if c.Fetched <= 0 {
		return dst
	}
	half := c.Fetched / 2
	if block > 1 {
		half -= half % block
	}
	if half > 0 && half < c.Fetched {
		part := c
		part.Fetched, part.Computed = half, c.Computed+c.Fetched-half
		part.Bytes = int64(math.Round(float64(c.Bytes) * float64(half) / float64(c.Fetched)))
		dst = append(dst, part)
	}
	return append(dst, recomputed(c))
}

func recomputed(c Candidate) Candidate {
	c.Computed, c.Fetched, c.Bytes, c.TransferQueue, c.Cold = c.Computed+c.Fetched, 0, 0, 0, false
	c.Transfer, c.Restore, c.Link = 0, 0, -1
	if c.Path == schema.PathFetch {
		c.Path = schema.PathRecompute
	}
	return c
}
