package main

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/harm"
)

// harmShare is the budget that is measured, of production's cost.
const harmShare = 0.01

// harmSection compares production's p99 TTFT with a replay budget of 1 % of its cost
// with that without, on the same traffic and noise, seed by seed: behind the gate
// that the replayer has by its settings, and without one.
func harmSection(n size) (Section, error) {
	s := Section{
		Title: "Harm: production's p99 TTFT with a replay budget of 1 % of cost, over that without",
		Head:  []string{"link", "gate", "seeds", "ratio", "at most (95 %)", "worst seed", "legs", "GPU-seconds", "promise"},
		Notes: []string{"The same seeds have the same arrivals and noise in both runs. The bound is Student's t on the logarithms."},
	}
	requests, seeds, most := 12_031, min(n.seeds, 60), 1.05
	if n.seeds < 20 {
		requests, most = 3000, 1.15
	}
	for _, link := range []string{"busy", "calm"} {
		for _, gate := range []budget.Idle{budget.DefaultIdle(), {}} {
			sum, err := harmOf(link, requests, seeds, gate)
			if err != nil {
				return s, err
			}
			name, promise := "none", ""
			if gate != (budget.Idle{}) {
				name = fmt.Sprintf("queue %.0f ms, %.0f transfers", 1e3*gate.MaxGPUQueue, gate.MaxFlows)
				promise = fmt.Sprintf("%.2f", most)
				s.check(link+" link, upper bound", sum.Upper, 0, most)
			}
			s.row(link, name, fmt.Sprint(sum.Pairs), fmt.Sprintf("%.4f", sum.Ratio), fmt.Sprintf("%.4f", sum.Upper), fmt.Sprintf("%.4f", sum.Worst),
				fmt.Sprint(sum.Legs), fmt.Sprintf("%.2f %%", 100*sum.Share), promise)
		}
	}
	return s, nil
}

func harmOf(link string, requests, seeds int, gate budget.Idle) (harm.Summary, error) {
	settings, err := harm.Demo(link, requests, harmShare)
	if err != nil {
		return harm.Summary{}, err
	}
	settings.Idle = gate
	all := make([]uint64, seeds)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	pairs, err := harm.Measure(settings, all, nil)
	if err != nil {
		return harm.Summary{}, err
	}
	return harm.Summarize(pairs, 1.05)
}
