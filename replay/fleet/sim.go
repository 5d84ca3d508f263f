package fleet

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Sim is one run of a fleet. It is not safe for concurrent use.
type Sim struct {
	cfg      Config
	requests []Request
	arrivals []arrival
	ladder   *ladder
	numbers  *numbering
	caches   *caches
	decide   Decider
	names    []string // of workers

	core     core
	now      float64
	upcoming int // index into arrivals
	entries  []entry
	query    Query
	scratch  []option
	tally    tally

	flows    []int // transfers in flight by coordinator
	heard    []int // the same at the last exchange
	total    int
	heardSum int
	heardAt  float64
}

// entry is what the log keeps of a job: with its job it is enough to run again.
type entry struct {
	request  int32 // index among the requests; −1 for a leg
	arrival  int32
	chosen   int16
	coord    int32
	ttft     float64 // NaN until its first token
	options  []option
	decision *schema.Decision
	flows    int // truly on the link at the decision
	leg      *Leg
	state    State
}

// New prepares a run of requests under a decider. The requests' times are spread
// over Config.Grid by the seed, divided by Config.SpeedUp and sorted.
func New(cfg Config, requests []Request, decide Decider) (*Sim, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if decide == nil {
		return nil, errors.New("fleet: no decider is given: pass FetchAll, or one of your own")
	}
	s := &Sim{cfg: cfg, requests: requests, decide: decide}
	var err error
	if s.ladder, err = newLadder(cfg.Ladder); err != nil {
		return nil, err
	}
	s.numbers = newNumbering(requests, cfg.Warm)
	if s.arrivals, err = schedule(&s.cfg, requests, s.numbers); err != nil {
		return nil, err
	}
	if err := s.fill(); err != nil {
		return nil, err
	}
	s.core = *newCore(&s.cfg)
	s.flows, s.heard = make([]int, cfg.Coordinators), make([]int, cfg.Coordinators)
	for i := range cfg.Workers {
		s.names = append(s.names, fmt.Sprintf("worker-%02d", i))
	}
	return s, nil
}

// fill makes the caches, from the snapshot where there is one.
func (s *Sim) fill() error {
	if s.cfg.Warm == nil {
		s.caches = newCaches(&s.cfg, s.numbers.count)
		return nil
	}
	for _, list := range append([][]int64{s.cfg.Warm.Store}, s.cfg.Warm.Workers...) {
		for _, b := range list {
			s.numbers.number(b)
		}
	}
	s.caches = newCaches(&s.cfg, s.numbers.count)
	return s.caches.restore(s.cfg.Warm, s.numbers)
}

// Now is how far the run has come, seconds.
func (s *Sim) Now() float64 { return s.now }

// End is when the last request arrives, seconds; 0 without requests.
func (s *Sim) End() float64 {
	if len(s.arrivals) == 0 {
		return 0
	}
	return s.arrivals[len(s.arrivals)-1].at
}

// Done says that every request and leg has had its first token.
func (s *Sim) Done() bool {
	return s.upcoming == len(s.arrivals) && math.IsInf(s.core.next(), 1)
}

// Step is what happened in one Advance.
type Step struct {
	Outcomes []Outcome    // in order of first token
	Legs     []LegOutcome // likewise
}

// Advance runs to until seconds: requests that arrive before it are decided, and
// those whose first token falls up to it come back. +Inf runs to the end. A time
// in the past does nothing.
func (s *Sim) Advance(until float64) Step {
	var out Step
	for s.upcoming < len(s.arrivals) && s.arrivals[s.upcoming].at < until {
		s.settle(s.arrivals[s.upcoming].at, &out)
		s.admit(&s.arrivals[s.upcoming])
		s.upcoming++
	}
	s.settle(until, &out)
	if !math.IsInf(until, 0) {
		s.now = math.Max(s.now, until)
	}
	return out
}

// settle lets everything that is under way happen up to t.
func (s *Sim) settle(t float64, out *Step) {
	for {
		next := s.core.next()
		if math.IsInf(next, 1) || next > t {
			break
		}
		s.exchange(next)
		s.core.step()
		s.now = math.Max(s.now, next)
		s.collect(out)
	}
}

// exchange lets the coordinators hear of each other, on a grid of Staleness.
func (s *Sim) exchange(t float64) {
	if s.cfg.Staleness == 0 {
		return
	}
	if grid := math.Floor(t/s.cfg.Staleness) * s.cfg.Staleness; grid > s.heardAt {
		copy(s.heard, s.flows)
		s.heardSum, s.heardAt = s.total, grid
	}
}

// view is what a coordinator knows of the link at t.
func (s *Sim) view(coord int, t float64) cost.View {
	v := cost.View{Own: float64(s.flows[coord]), Coordinators: float64(s.cfg.Coordinators)}
	if s.cfg.Staleness == 0 {
		v.Others = float64(s.total - s.flows[coord])
		return v
	}
	v.Others, v.Age = float64(s.heardSum-s.heard[coord]), t-s.heardAt
	if s.cfg.Coordinators == 1 {
		v.Age = 0
	}
	return v
}

// admit decides a request and places it.
func (s *Sim) admit(a *arrival) {
	s.now = math.Max(s.now, a.at)
	s.exchange(a.at)
	s.scratch = s.options(a, s.scratch[:0])
	q := s.ask(a)
	chosen := s.decide(q)
	if chosen < 0 || chosen >= len(q.Candidates) {
		panic(fmt.Sprintf("fleet: the decider chose candidate %d of %d for request %d", chosen, len(q.Candidates), q.Index))
	}
	id := int32(len(s.core.jobs))
	e := entry{
		request: a.index, arrival: int32(s.upcoming), chosen: int16(chosen), coord: int32(q.Coordinator),
		ttft: math.NaN(), options: append([]option(nil), s.scratch...), flows: len(s.core.link.flows),
	}
	e.decision = s.decision(q, a, chosen)
	o := s.scratch[chosen]
	s.core.jobs = append(s.core.jobs, s.draw(s.cfg.Seed, uint64(a.index), o, a.at, s.requests[a.index].OutputTokens))
	s.entries = append(s.entries, e)
	s.depart(id, q.Coordinator)
	s.core.place(id)
	s.count(a, &s.core.jobs[id])
}

// depart counts a transfer from its decision on.
func (s *Sim) depart(id int32, coord int) {
	if s.core.jobs[id].bytes > 0 {
		s.total++
		if coord >= 0 {
			s.flows[coord]++
		}
	}
}

// ask fills in the query for s.scratch.
func (s *Sim) ask(a *arrival) *Query {
	q := &s.query
	coord := int(key(s.cfg.Seed, uint64(a.index), 0, stageCoordinator) % uint64(s.cfg.Coordinators))
	*q = Query{
		Index: int(a.index), Now: a.at, Model: s.cfg.Model, GPU: s.cfg.GPU, Link: s.cfg.Link.Name,
		PromptTokens: s.requests[a.index].PromptTokens, Coordinator: coord, View: s.view(coord, a.at),
		Candidates: make([]schema.Candidate, 0, len(s.scratch)), Active: q.Active[:0],
	}
	for _, o := range s.scratch {
		q.Candidates = append(q.Candidates, s.describe(o, a.index, a.at))
		q.Active = append(q.Active, s.core.workers[o.worker].active(a.at))
		q.PrefixTokens = max(q.PrefixTokens, int64(o.resident+o.fetched))
	}
	return q
}

// collect takes what the core finished: caches fill, coordinators forget their
// transfers, outcomes go out.
func (s *Sim) collect(out *Step) {
	for _, id := range s.core.moved {
		s.total--
		if c := s.entries[id].coord; c >= 0 {
			s.flows[c]--
		}
	}
	s.core.moved = s.core.moved[:0]
	for i := range s.core.done {
		f := &s.core.done[i]
		e := &s.entries[f.id]
		e.ttft = f.at - s.core.jobs[f.id].at
		if e.leg != nil {
			out.Legs = append(out.Legs, s.legOutcome(f, e))
			continue
		}
		s.keep(f, e)
		out.Outcomes = append(out.Outcomes, s.outcome(f, e))
	}
	s.core.done = s.core.done[:0]
}

// keep puts a computed prompt's whole blocks into its worker's cache and the
// store, the first ones last so that they stay longest.
func (s *Sim) keep(f *finished, e *entry) {
	a := &s.arrivals[e.arrival]
	worker := s.core.jobs[f.id].worker
	whole := min(len(a.blocks), int(s.requests[a.index].PromptTokens)/BlockTokens)
	for i := whole - 1; i >= 0; i-- {
		s.caches.hold(worker, a.blocks[i])
	}
}

// Snapshot is the caches as they are now.
func (s *Sim) Snapshot() *Snapshot { return s.caches.snapshot(s.numbers) }
