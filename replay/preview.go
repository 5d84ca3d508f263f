package replay

import (
	"sort"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Expected is what a plan would run of one stratum, before budgets.
type Expected struct {
	Stratum   string
	Decisions int
	Rate      float64 // of sampled decisions
	Rejected  int     // legs drawn
	Control   int
	Cost      execute.Cost // of the legs drawn, as predicted
}

// Preview is what a plan would do with a set of decisions.
type Preview struct {
	Plan       string
	Decisions  int
	Ineligible map[string]int // by why
	Strata     []Expected     // by name
	Legs       execute.Cost
	Production execute.Cost // of the decisions themselves
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

// PreviewOf says what the plan would run of the parts and what it would cost, by
// stratum. Nothing is run.
func PreviewOf(plan *sample.Plan, parts []*schema.Part) Preview {
	out := Preview{Plan: plan.ID(), Ineligible: map[string]int{}}
	strata := map[string]*Expected{}
	for _, p := range parts {
		if p.Kind != schema.KindContract {
			continue
		}
		out.Decisions++
		if why := sample.Eligible(p); why != "" {
			out.Ineligible[why]++
			continue
		}
		own := productionCost(p)
		add(&out.Production, execute.Cost{GPUSeconds: own.GPUSeconds, Bytes: own.Bytes})
		s := plan.StratumOf(&p.Decision)
		e := strata[s.String()]
		if e == nil {
			e = &Expected{Stratum: s.String(), Rate: plan.Rate(s)}
			strata[s.String()] = e
		}
		e.Decisions++
		for _, d := range plan.Draw(p) {
			e.draw(p, d)
		}
	}
	for _, e := range strata {
		add(&out.Legs, e.Cost)
		out.Strata = append(out.Strata, *e)
	}
	sort.Slice(out.Strata, func(i, j int) bool { return out.Strata[i].Stratum < out.Strata[j].Stratum })
	return out
}

func (e *Expected) draw(p *schema.Part, d sample.Draw) {
	if d.Leg == schema.LegControl {
		e.Control++
	} else {
		e.Rejected++
	}
	l := execute.Leg{Candidate: p.Decision.Candidates[d.Candidate]}
	add(&e.Cost, l.Estimate())
}

func add(sum *execute.Cost, c execute.Cost) {
	sum.GPUSeconds += c.GPUSeconds
	sum.Bytes += c.Bytes
}
