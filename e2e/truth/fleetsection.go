package main

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// judged is one ordered pair of one run, beside its truth.
type judged struct {
	estimate.Pair
	truth float64
	err   error
}

type ordered struct{ from, to schema.Path }

// fleetRun draws, replays and estimates one run, and forks it for the truth.
func fleetRun(t traffic, link string, seed uint64) ([]judged, error) {
	r, err := newRun(t, link, seed)
	if err != nil {
		return nil, err
	}
	if err := r.advanceAll(); err != nil {
		return nil, err
	}
	in, err := r.input()
	if err != nil {
		return nil, err
	}
	truth, err := r.truths()
	if err != nil {
		return nil, err
	}
	var out []judged
	for _, p := range estimate.Estimate(in, estimate.Options{Level: level}).Pairs {
		sum, n := 0.0, 0.0
		for i := range in.Decisions {
			d := &in.Decisions[i]
			if y := truth[d.ID][p.To]; d.Path == p.From && !math.IsNaN(y) {
				sum += y - d.Y
				n++
			}
		}
		out = append(out, judged{Pair: p, truth: sum / n})
	}
	return out, nil
}

// fleetSection holds estimates to the truth of the simulated fleet.
func fleetSection(link string, seeds int) (Section, error) {
	s := Section{
		Title: fmt.Sprintf("Simulated fleet, %s link: %d runs of the trace's first half, replays at 10 %% of cost", link, seeds),
		Head:  []string{"pair", "known", "truth ms", "mean error ms", "its error", "spread", "claimed", "covered (90 %)", "naive's error"},
		Notes: []string{"spread: standard deviation of the error over runs; claimed: root mean square of the standard errors"},
	}
	t, err := load(math.MaxInt)
	if err != nil {
		return s, err
	}
	type runResult struct {
		pairs []judged
		err   error
	}
	all := draw(seeds, func(seed uint64) runResult {
		pairs, err := fleetRun(t, link, seed+1)
		return runResult{pairs, err}
	})
	by := map[ordered][]judged{}
	for _, r := range all {
		if r.err != nil {
			return s, r.err
		}
		for _, j := range r.pairs {
			by[ordered{j.From, j.To}] = append(by[ordered{j.From, j.To}], j)
		}
	}
	for from := schema.PathFetch; int(from) < estimate.NumPaths; from++ {
		for to := schema.PathFetch; int(to) < estimate.NumPaths; to++ {
			if rows := by[ordered{from, to}]; len(rows) > 0 {
				s.fleetRow(from.String()+"→"+to.String(), rows, seeds)
			}
		}
	}
	return s, nil
}

func (s *Section) fleetRow(name string, rows []judged, seeds int) {
	var n, truth, sum, square, claimed, covered, naive float64
	for i := range rows {
		j := &rows[i]
		if !j.Known {
			continue
		}
		e := j.Theta - j.truth
		n++
		truth += j.truth
		sum += e
		square += e * e
		claimed += j.Window.SE * j.Window.SE
		covered += covers(j.Window, j.truth)
		naive += j.Naive - j.truth
	}
	if n == 0 {
		s.row(name, fmt.Sprintf("0 of %d", seeds), "", "", "", "", "", "", "")
		return
	}
	spread := math.Sqrt(math.Max(0, square/n-sum*sum/n/n) * n / math.Max(1, n-1))
	s.row(name, fmt.Sprintf("%.0f of %d", n, seeds), millis(truth/n), millis(sum/n), "± "+millis(spread/math.Sqrt(n)),
		millis(spread), millis(math.Sqrt(claimed/n)), percent(covered/n), millis(naive/n))
	if n >= 5 {
		s.check(name+": covered", covered/n, 0.85-slack(n, 0.9), 1)
		s.check(name+": mean error over its own standard error", math.Abs(sum/n)/(spread/math.Sqrt(n)), 0, 3.5)
	}
}
