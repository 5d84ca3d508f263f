package estimate

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// row is one request of a pair, ready to be averaged.
type row struct {
	request *request
	model   float64 // m_b, recalibrated
	weight  float64 // 1/(π q̂); 0 where no leg ran
	carried float64 // ỹ*
	raw     float64 // ỹ
	batch   string
}

// population is the requests of a pair.
type population struct {
	from, to   schema.Path
	rows       []row
	unknown    int
	unsaid     float64 // seconds of TTFT of the unknown
	starved    int     // of the unknown, those whose stratum completes too rarely
	infeasible int
	delta      delta
	parts      []part // of the variance of its window, where it is known
}

// gather sorts requests that chose a into usable, unknown and infeasible.
func (ix *index) gather(set []*request, a, b schema.Path, model []float64) population {
	s := population{from: a, to: b}
	for _, r := range set {
		if r.Path != a {
			continue
		}
		if !finite(r.Model[b]) {
			s.infeasible++
			continue
		}
		q, ok := ix.completion(r, b)
		if !finite(r.Y) {
			s.unknown++
			continue
		}
		if !ok || q < ix.opt.MinCompletion {
			s.unknown++
			s.unsaid += r.Y
			s.starved++
			continue
		}
		w := row{request: r, model: model[r.at]}
		if l := r.rejected[b]; l != nil {
			w.weight, w.carried, w.raw, w.batch = 1/(l.Inclusion*q), l.carried(), l.Y, l.Batch
		}
		s.rows = append(s.rows, w)
	}
	return s
}

// pair estimates θ(a→b) over a set of requests.
func (ix *index) pair(set []*request, a, b schema.Path, model []float64) (Pair, population) {
	s := ix.gather(set, a, b, model)
	p := refused(Pair{
		From: a, To: b, N: len(s.rows), Unknown: s.unknown, Infeasible: s.infeasible,
		DeltaP: math.NaN(), Completion: ix.pairCompletion(a, b),
	})
	s.describe(&p)
	if p.Why = ix.tooLittle(&p, &s); p.Why != "" {
		return p, s
	}
	requests := make([]*request, len(s.rows))
	for i, r := range s.rows {
		requests[i] = r.request
	}
	s.delta = ix.deltaFor(requests, b)
	p.Controls, p.DeltaP = s.delta.n, s.delta.p
	if p.Why = s.delta.why; p.Why != "" {
		return p, s
	}
	s.delta.widen(s.spread(ix.missed(b)))
	s.tails(&p)
	if p.Why = ix.notTrusted(&p, &s); p.Why != "" {
		return p, s
	}
	p.Known = true
	ix.fill(&p, &s)
	return p, s
}

// refused blanks every number that a refusal must not show.
func refused(p Pair) Pair {
	nan := math.NaN()
	blank := Interval{nan, nan, nan}
	p.Theta, p.Window, p.NextHour, p.Always, p.Exact, p.Direct = nan, blank, blank, blank, blank, nan
	p.Naive, p.IPW, p.SNIPW, p.Delta, p.DeltaSE, p.ParetoK = nan, nan, nan, nan, nan, nan
	p.TailK, p.Influence = nan, nan
	return p
}

func (ix *index) pairCompletion(a, b schema.Path) float64 {
	t := ix.done[cell{level: 2, from: a, run: b}]
	if t == nil || t.intended <= 0 {
		return math.NaN()
	}
	return math.Min(1, t.executed/t.intended)
}

// describe counts what supports the pair.
func (s *population) describe(p *Pair) {
	batches, blocks := map[string]bool{}, map[int64]bool{}
	sum, squares, largest, chosen := 0.0, 0.0, 0.0, 0.0
	for _, r := range s.rows {
		blocks[r.request.Block] = true
		chosen += r.request.Y
		if r.weight == 0 {
			continue
		}
		p.Legs++
		batches[r.batch] = true
		sum += r.weight
		squares += r.weight * r.weight
		largest = math.Max(largest, r.weight)
	}
	p.Batches, p.Blocks = len(batches), len(blocks)
	p.MeanChosen = chosen / float64(len(s.rows))
	if p.Legs > 0 {
		p.ESS, p.MaxWeight = sum*sum/squares, largest/sum
	}
}

// tooLittle says which support is missing, in words that say what to do.
func (ix *index) tooLittle(p *Pair, s *population) string {
	feasible, out := p.N+p.Unknown, s.leftOut(p)
	switch {
	case feasible == 0:
		return fmt.Sprintf("no request that chose %s had a candidate to %s", p.From, p.To)
	case math.IsNaN(p.Completion):
		return fmt.Sprintf("no leg of %s was drawn for requests that chose %s: wait, or raise the rate", p.To, p.From)
	case s.starved > 0 && out > ix.opt.MaxUnknown:
		return fmt.Sprintf("fewer than %.0f %% of the drawn legs were run for requests with %.0f %% of the time (%.0f %% of all the pair's legs ran): raise the budget or lower the rate, or see why legs fail", 100*ix.opt.MinCompletion, 100*out, 100*p.Completion)
	case out > ix.opt.MaxUnknown:
		return fmt.Sprintf("%d of %d requests have no observed TTFT", p.Unknown, feasible)
	case p.Legs < ix.opt.MinLegs:
		return fmt.Sprintf("%s, %d needed: wait, or raise the rate", counted(p.Legs, "leg"), ix.opt.MinLegs)
	case p.ESS < ix.opt.MinESS:
		return fmt.Sprintf("the legs are worth %.1f equal ones, %.0f needed: their probabilities differ too much", p.ESS, ix.opt.MinESS)
	}
	return ""
}

// counted is a number with its noun: "1 leg", "4 legs".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// leftOut is the share of the pair's requests that is unknown, or that of their
// observed time, whichever is larger: few requests can be most of the waiting.
func (s *population) leftOut(p *Pair) float64 {
	share := float64(p.Unknown) / math.Max(1, float64(p.N+p.Unknown))
	if known := p.MeanChosen * float64(p.N); known+s.unsaid > 0 {
		share = math.Max(share, s.unsaid/(known+s.unsaid))
	}
	return share
}

// notTrusted says why the numbers, though they could be had, are not to be shown.
func (ix *index) notTrusted(p *Pair, s *population) string {
	theta := s.mean()
	matters := math.Max(ix.opt.DeltaShare*p.MeanChosen, 0.1*math.Abs(theta))
	switch {
	case s.delta.p < ix.opt.DeltaP && s.delta.spread > matters:
		return fmt.Sprintf("replaying %s is off by amounts that differ between sizes or loads (spread %.3g s, p %.2g): the cost model carries legs wrongly, calibrate it", p.To, s.delta.spread, s.delta.p)
	case p.ParetoK > ix.opt.MaxTail:
		return fmt.Sprintf("a few legs of tiny probability decide the result (Pareto k %.2f): raise the least rate", p.ParetoK)
	case p.Influence > ix.opt.MaxInfluence:
		return fmt.Sprintf("one leg is %.0f %% of all that the legs say: wait for more, or see why it took so long", 100*p.Influence)
	}
	return ""
}

// phi is the request's term of the AIPW mean: m_b − y + w(ỹ* − δ_b − m_b).
func (s *population) phi(r *row) float64 {
	return r.model - r.request.Y + r.weight*s.residual(r)
}

func (s *population) residual(r *row) float64 {
	if r.weight == 0 {
		return 0
	}
	return r.carried - s.delta.value - r.model
}

func (s *population) mean() (sum float64) {
	for i := range s.rows {
		sum += s.phi(&s.rows[i])
	}
	return sum / float64(len(s.rows))
}

// tails looks at the legs' weights and at |w(ỹ* − δ − m)|, with m as it was
// logged: recalibration by one wild leg would make all the others look as large.
func (s *population) tails(p *Pair) {
	var weights, residuals []float64
	largest, sum := 0.0, 0.0
	for i := range s.rows {
		if r := &s.rows[i]; r.weight > 0 {
			x := math.Abs(r.weight * (r.carried - s.delta.value - r.request.Model[s.to]))
			weights, residuals = append(weights, r.weight), append(residuals, x)
			largest = math.Max(largest, x)
			sum += x
		}
	}
	p.ParetoK, p.TailK = tailIndex(weights), tailIndex(residuals)
	if sum > 0 {
		p.Influence = largest / sum
	}
}

func (ix *index) fill(p *Pair, s *population) {
	p.Theta = s.mean()
	p.Delta, p.DeltaSE = s.delta.value, math.Sqrt(s.delta.variance)
	p.Naive, p.IPW, p.SNIPW, p.Direct = s.beside()
	draw, fromDelta, batches := s.windowVariance()
	s.parts = []part{{draw, float64(p.Legs - 1)}, {fromDelta, s.delta.df}, {batches, float64(p.Batches - 1)}}
	p.Window = interval(p.Theta, ix.opt.Level, s.parts...)
	ordinary, blocks := s.nextHourVariance(p.Theta)
	if blocks >= ix.opt.MinBlocks {
		p.NextHour = interval(p.Theta, ix.opt.Level,
			part{ordinary, float64(blocks - 1)}, part{fromDelta, s.delta.df})
	}
	if p.N >= ix.opt.BurnIn {
		n := float64(p.N)
		sigma := math.Sqrt(n * (math.Max(ordinary, s.plainVariance(p.Theta)) + fromDelta))
		half := asymptoticRadius(n, sigma, 1-ix.opt.Level, float64(ix.opt.BurnIn))
		p.Always = Interval{p.Theta - half, p.Theta + half, sigma / math.Sqrt(n)}
	}
	if ix.opt.Clip > 0 {
		p.Exact = s.exact(ix.opt, fromDelta)
	}
}

// exact is Pair.Exact: half of the error for the sequence, half for δ.
func (s *population) exact(opt Options, fromDelta float64) Interval {
	alpha := (1 - opt.Level) / 2
	clip := func(x float64) float64 { return math.Min(opt.Clip, math.Max(0, x)) }
	widest := 1 / (opt.MinRate * opt.MinCompletion)
	b := NewBernstein(alpha, -opt.Clip*(1+widest), opt.Clip*(1+widest))
	for i := range s.rows {
		r := &s.rows[i]
		phi := clip(r.model) - clip(r.request.Y)
		if r.weight > 0 {
			phi += math.Min(widest, r.weight) * (clip(r.carried-s.delta.value) - clip(r.model))
		}
		b.Add(phi)
	}
	half := interval(0, 1-alpha, part{fromDelta, s.delta.df}).Hi
	i := b.Interval()
	return Interval{i.Lo - half, i.Hi + half, math.NaN()}
}

// beside gives the estimates that AIPW is to be compared with.
func (s *population) beside() (naive, ipw, snipw, direct float64) {
	n, legs, weights, chosen := float64(len(s.rows)), 0.0, 0.0, 0.0
	for i := range s.rows {
		r := &s.rows[i]
		chosen += r.request.Y
		direct += (r.model - r.request.Y) / n
		if r.weight == 0 {
			continue
		}
		legs++
		weights += r.weight
		naive += r.raw - r.request.Y
		ipw += r.weight * (r.carried - s.delta.value)
		snipw += r.weight * (r.carried - s.delta.value - r.request.Y)
	}
	return naive / legs, (ipw - chosen) / n, snipw / weights, direct
}
