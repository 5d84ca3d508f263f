package fit

import (
	"math"
	"slices"
)

// share is how long a flow had a link to itself and countOf(level)−1 others.
type share struct {
	level   int
	seconds float64
}

// Levels stand for numbers of flows: exact up to exactCounts, then a level for
// each step of 5 %, so that a link that collapsed under thousands can be fitted.
const (
	exactCounts = 64
	countStep   = 1.05
)

func levelOf(count int) int {
	if count <= exactCounts {
		return count
	}
	return exactCounts + int(math.Round(math.Log(float64(count)/exactCounts)/math.Log(countStep)))
}

func countOf(level int) float64 {
	if level <= exactCounts {
		return float64(level)
	}
	return exactCounts * math.Pow(countStep, float64(level-exactCounts))
}

// overlaps gives for each flow how long it shared its link with how many, itself
// counted: exact, for a snapshot of the flows at its start errs by 12 to 21 % a
// request. The flows are all of one link.
func overlaps(flows []TransferObs) [][]share {
	events := eventsOf(flows)
	out := make([][]share, len(flows))
	began := make(map[int][]float64) // flow in flight -> elapsed at its first byte
	var elapsed []float64            // seconds that flows were on the link, by level
	last := 0.0
	for _, e := range events {
		n := levelOf(len(began))
		for len(elapsed) <= n {
			elapsed = append(elapsed, 0)
		}
		if n > 0 {
			elapsed[n] += e.at - last
		}
		last = e.at
		if e.begins {
			began[e.flow] = slices.Clone(elapsed)
			continue
		}
		out[e.flow] = since(elapsed, began[e.flow])
		delete(began, e.flow)
	}
	return out
}

func since(elapsed, began []float64) []share {
	var out []share
	for level, total := range elapsed {
		if level < len(began) {
			total -= began[level]
		}
		if total > 0 {
			out = append(out, share{level: level, seconds: total})
		}
	}
	return out
}

type event struct {
	at     float64
	flow   int
	begins bool
}

// eventsOf sorts first and last bytes by time; at one instant ends come first.
func eventsOf(flows []TransferObs) []event {
	events := make([]event, 0, 2*len(flows))
	for i, f := range flows {
		events = append(events, event{f.Start, i, true}, event{f.End, i, false})
	}
	slices.SortStableFunc(events, func(a, b event) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		case !a.begins && b.begins:
			return -1
		case a.begins && !b.begins:
			return 1
		}
		return 0
	})
	return events
}
