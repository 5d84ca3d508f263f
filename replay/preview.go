package replay

import (
	"math"
	"sort"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Expected is what a plan would run of one stratum, before budgets.
type Expected struct {
	Stratum   string
	Decisions int
	Rate      float64            // of sampled decisions
	Inclusion map[string]float64 // mean π(b) of the stratum's decisions that had b, by path b
	Legs      float64            // expected: the sum of the probabilities, of both kinds
	Cost      execute.Cost       // expected likewise, as predicted
	Rejected  int                // legs that these draws give
	Control   int

	had map[string]int // decisions that had path b
}

// Preview is what a plan would do with a set of decisions.
type Preview struct {
	Plan       string
	Decisions  int
	Ineligible map[string]int // by why
	Strata     []Expected     // by name
	Pairs      []PairSupport  // by paths
	Legs       execute.Cost   // expected
	Production execute.Cost   // of the decisions themselves
	Span       time.Duration  // from the first decision to the last
}

// What a verdict of a pair needs at least, as estimate.Options has it: legs of the
// pair, and control legs of requests that chose the other path.
const (
	needLegs     = 20
	needControls = 10
)

// PairSupport is how long replays take until an ordered pair of paths can have a
// verdict.
type PairSupport struct {
	From, To  schema.Path
	Decisions int           // that chose From and had To
	Legs      float64       // expected of them, in the time of the decisions, before budgets
	Controls  float64       // of requests that chose To
	Until     time.Duration // until there are enough of both, at this pace and within the budget; 0: not known
	Never     string        // why there will not be; "" where there will
}

// GPUShare is the legs' share of production's GPU-seconds; 0 without any.
func (p *Preview) GPUShare() float64 { return share(p.Legs.GPUSeconds, p.Production.GPUSeconds) }

// ByteShare is the legs' share of production's bytes; 0 without any.
func (p *Preview) ByteShare() float64 { return share(p.Legs.Bytes, p.Production.Bytes) }

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// previewer is a preview under way.
type previewer struct {
	Preview
	plan     *sample.Plan
	strata   map[string]*Expected
	pairs    map[[2]schema.Path]*PairSupport
	controls map[schema.Path]float64
	first    int64
	last     int64
}

// PreviewOf says what the plan would run of the parts and what it would cost, by
// stratum, and when each pair would have enough, where legs may take budget (a
// share of production's cost). Nothing is run.
func PreviewOf(plan *sample.Plan, parts []*schema.Part, budget float64) Preview {
	v := &previewer{
		Preview: Preview{Plan: plan.ID(), Ineligible: map[string]int{}}, plan: plan,
		strata: map[string]*Expected{}, pairs: map[[2]schema.Path]*PairSupport{}, controls: map[schema.Path]float64{},
	}
	for _, p := range parts {
		if p.Kind == schema.KindContract {
			v.add(p)
		}
	}
	v.finish(budget)
	return v.Preview
}

func (v *previewer) add(p *schema.Part) {
	v.Decisions++
	if why := sample.Eligible(p); why != "" {
		v.Ineligible[why]++
		return
	}
	if v.first == 0 || p.StartNanos < v.first {
		v.first = p.StartNanos
	}
	v.last = max(v.last, p.StartNanos)
	own := productionCost(p)
	add(&v.Production, execute.Cost{GPUSeconds: own.GPUSeconds, Bytes: own.Bytes}, 1)
	s := v.plan.StratumOf(&p.Decision)
	e := v.strata[s.String()]
	if e == nil {
		e = &Expected{Stratum: s.String(), Rate: v.plan.Rate(s), Inclusion: map[string]float64{}, had: map[string]int{}}
		v.strata[s.String()] = e
	}
	e.Decisions++
	v.expect(e, p)
	for _, d := range v.plan.Draw(p) {
		if d.Leg == schema.LegControl {
			e.Control++
		} else {
			e.Rejected++
		}
	}
}

// expect adds what the plan may draw of a decision, with its probabilities.
func (v *previewer) expect(e *Expected, p *schema.Part) {
	d, chosen, others := &p.Decision, p.Decision.Path, false
	for b, candidate := range sample.Alternatives(d) {
		to := schema.Path(b)
		if candidate < 0 || to == chosen {
			continue
		}
		others = true
		pi := v.plan.Inclusion(p, to)
		e.had[to.String()]++
		e.Inclusion[to.String()] += (pi - e.Inclusion[to.String()]) / float64(e.had[to.String()])
		e.leg(d, candidate, pi)
		key := [2]schema.Path{chosen, to}
		if v.pairs[key] == nil {
			v.pairs[key] = &PairSupport{From: chosen, To: to}
		}
		v.pairs[key].Decisions++
		v.pairs[key].Legs += pi
	}
	if others {
		rate := v.plan.ControlRate(chosen)
		v.controls[chosen] += rate
		e.leg(d, int(d.Chosen.V), rate)
	}
}

func (e *Expected) leg(d *schema.Decision, candidate int, probability float64) {
	l := execute.Leg{Candidate: d.Candidates[candidate]}
	e.Legs += probability
	add(&e.Cost, l.Estimate(), probability)
}

func (v *previewer) finish(budget float64) {
	v.Span = time.Duration(v.last - v.first)
	for _, e := range v.strata {
		add(&v.Legs, e.Cost, 1)
		v.Strata = append(v.Strata, *e)
	}
	sort.Slice(v.Strata, func(i, j int) bool { return v.Strata[i].Stratum < v.Strata[j].Stratum })
	funded := 1.0
	if most := math.Max(v.GPUShare(), v.ByteShare()); most > budget {
		funded = budget / most
	}
	for _, p := range v.pairs {
		p.Controls = v.controls[p.To]
		p.wait(v.Span, funded)
		v.Pairs = append(v.Pairs, *p)
	}
	sort.Slice(v.Pairs, func(i, j int) bool {
		a, b := v.Pairs[i], v.Pairs[j]
		return a.From < b.From || (a.From == b.From && a.To < b.To)
	})
}

// wait works out when there is enough, at the pace of the span.
func (p *PairSupport) wait(span time.Duration, funded float64) {
	if p.Controls == 0 {
		p.Never = "no request chose " + p.To.String() + ": without control legs its bias as a replay is not known"
		return
	}
	spans := math.Max(needLegs/(p.Legs*funded), needControls/(p.Controls*funded))
	if wait := spans * float64(span); wait < math.MaxInt64 {
		p.Until = time.Duration(wait)
	}
}

func add(sum *execute.Cost, c execute.Cost, times float64) {
	sum.GPUSeconds += times * c.GPUSeconds
	sum.Bytes += times * c.Bytes
}
