package app

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/evaluate"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
)

// slicing is one slice of the requests.
type slicing struct {
	by, value string
	of        func(*estimate.Decision) string
}

var slicings = []slicing{
	{by: "path", of: func(d *estimate.Decision) string { return d.Path.String() }},
	{by: "policy", of: func(d *estimate.Decision) string { return d.Slice.Policy }},
	{by: "model", of: func(d *estimate.Decision) string { return d.Slice.Model }},
	{by: "tier", of: func(d *estimate.Decision) string { return d.Slice.Tier }},
	{by: "link", of: func(d *estimate.Decision) string { return d.Slice.Link }},
	{by: "size", of: func(d *estimate.Decision) string { return schema.SizeBucketName(d.Slice.Size) }},
}

// mostSlices bounds the values of one dimension: more are the largest only.
const mostSlices = 12

// slices lists the values of each dimension that has more than one, the largest
// first.
func (e *evaluation) slices() (out []slicing) {
	for _, s := range slicings {
		n := map[string]int{}
		for i := range e.sample.Input.Decisions {
			n[s.of(&e.sample.Input.Decisions[i])]++
		}
		var values []string
		for v := range n {
			values = append(values, v)
		}
		slices.SortFunc(values, func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
		if len(values) < 2 {
			continue
		}
		for _, v := range values[:min(len(values), mostSlices)] {
			out = append(out, slicing{s.by, v, s.of})
		}
	}
	return out
}

// simulation values the policy by runs of a fleet made of the log.
func (e *evaluation) simulation(ctx context.Context) error {
	link, share := e.mainLink()
	switch {
	case link == "":
		e.out.Methods = append(e.out.Methods, refusedBy(MethodSimulation, "no request had a candidate to fetch: there is no link to simulate"))
		return nil
	case share < 0.9:
		e.out.Methods = append(e.out.Methods, refusedBy(MethodSimulation, fmt.Sprintf("the requests could use several links, and the simulator has one (link %s has %.0f %% of the bytes): give --link", link, 100*share)))
		return nil
	}
	blocks, note := readBlocks(ctx, e.settings, e.decided)
	if err := ctx.Err(); err != nil {
		return err
	}
	arrivals := make([]evaluate.Arrival, 0, len(e.order))
	first := e.out.From.UnixNano()
	for _, id := range e.order {
		d := e.decided[id]
		arrivals = append(arrivals, evaluate.Arrival{At: float64(d.nanos-first) / 1e9, Decision: &d.decision, TTFT: d.ttft, Blocks: blocks[id]})
	}
	sim, err := evaluate.Simulate(arrivals, e.policy, evaluate.Fleet{
		Document: e.document, Link: link, Workers: len(e.workers()), Runs: e.options.Runs, Seed: e.options.Seed, Noise: simulatedNoise,
	})
	if err != nil {
		return fmt.Errorf("value by simulation: %w", err)
	}
	m := bySimulation(sim)
	if note != "" {
		m.Assumptions = append(m.Assumptions, note)
	}
	e.out.Methods = append(e.out.Methods, m)
	return nil
}

// simulatedNoise is that of the simulated stages, as shares: what is left of a fit
// in practice.
var simulatedNoise = fleet.Noise{Prefill: 0.05, Fixed: 0.1, Restore: 0.05, Report: 0.1}

// mainLink is the link of the most bytes that could have been fetched, and its share
// of all.
func (e *evaluation) mainLink() (link string, share float64) {
	by, all := map[string]float64{}, 0.0
	for _, id := range e.order {
		l, bytes := linkOf(&e.decided[id].decision)
		by[l] += bytes
		all += bytes
	}
	for l, bytes := range by {
		if l != "" && (link == "" || bytes > by[link] || (bytes == by[link] && l < link)) {
			link = l
		}
	}
	return link, by[link] / math.Max(1, all)
}
