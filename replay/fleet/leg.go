package fleet

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Leg is one path of one past decision, to be run as a replay.
type Leg struct {
	ID           uint64 // keys its draws: never use one twice
	PromptTokens int64
	Candidate    schema.Candidate // Path, Worker and the token counts are used
}

// State is the load that a leg met, on the terms in which a decision's is logged.
type State struct {
	GPUQueue float64 // reported by the worker, seconds
	Flows    int     // transfers on the link, exactly
	Rivals   float64 // as many equal flows would slow the leg as much: Flows over ReplayWeight
	Active   int     // requests decoding on the worker
}

// LegOutcome is one leg that has had its first token.
type LegOutcome struct {
	Leg        Leg
	At         float64 // injected, seconds after the run's start
	FirstToken float64
	State      State // when it was injected
	Observed   schema.Observed
	GPUSeconds float64 // charged to the budget
	LinkBytes  int64   // charged to the budget
}

// Inject starts a leg now, as low-priority traffic: its transfer has a share of
// ReplayWeight on the link and slows the others, its prefill starts where production
// leaves the GPU idle (and gives way again where ReplayYields). It reads and fills a
// replay namespace of its own: production's caches never change.
//
// Advance in small steps between legs: they start at Now, and those of one instant
// meet each other.
func (s *Sim) Inject(leg Leg) error {
	worker, ok := s.WorkerIndex(leg.Candidate.Worker)
	c := &leg.Candidate
	if !ok {
		return fmt.Errorf("fleet leg %d: no worker %q in this fleet of %d", leg.ID, c.Worker, s.cfg.Workers)
	}
	if c.TokensResident < 0 || c.TokensFetched < 0 || c.TokensComputed < 1 || c.TokensResident+c.TokensFetched+c.TokensComputed > math.MaxInt32 {
		return fmt.Errorf("fleet leg %d: %d resident, %d fetched and %d computed tokens: none may be negative, and 1 or more must be computed", leg.ID, c.TokensResident, c.TokensFetched, c.TokensComputed)
	}
	o := option{
		path: c.Path, worker: int32(worker),
		resident: int32(c.TokensResident), fetched: int32(c.TokensFetched), computed: int32(c.TokensComputed),
	}
	id := int32(len(s.core.jobs))
	j := s.draw(mix(s.cfg.Seed, 0x1e6), leg.ID, o, s.now, 0)
	j.low = true
	j.weight *= s.cfg.ReplayWeight
	kept := leg
	s.core.jobs = append(s.core.jobs, j)
	s.entries = append(s.entries, entry{
		request: -1, arrival: -1, coord: -1, ttft: math.NaN(), leg: &kept, state: s.StateOf(worker, leg.ID),
	})
	s.depart(id, -1)
	s.core.place(id)
	return nil
}

// StateOf is the load now, as a leg on the worker would meet it; id keys the
// imprecision of the worker's report.
func (s *Sim) StateOf(worker int, id uint64) State {
	w := int32(worker)
	flows := len(s.core.link.flows)
	return State{
		GPUQueue: s.report(w, id, s.now), Active: s.core.workers[w].active(s.now),
		Flows: flows, Rivals: float64(flows) / s.cfg.ReplayWeight,
	}
}

// Idle says that a worker's GPU has nothing to do, of production or of replays.
func (s *Sim) Idle(worker int) bool { return s.core.workers[worker].idle() }

// Workers is the names of the workers, by index.
func (s *Sim) Workers() []string { return s.names }

// WorkerIndex is the index of a worker's name.
func (s *Sim) WorkerIndex(name string) (int, bool) {
	for i, n := range s.names {
		if n == name {
			return i, true
		}
	}
	return 0, false
}

func (s *Sim) legOutcome(f *finished, e *entry) LegOutcome {
	j := &s.core.jobs[f.id]
	return LegOutcome{
		Leg: *e.leg, At: j.at, FirstToken: f.at, State: e.state, Observed: observe(f, j),
		GPUSeconds: f.item.total, LinkBytes: int64(j.bytes),
	}
}
