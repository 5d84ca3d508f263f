package fleet

import (
	"errors"
	"math"
)

// Plan says of which requests the truth is wanted.
type Plan struct {
	Every         int     // of one request in so many, by hash; 0 or 1 means of each
	ExternalEvery int     // the others' delays, of one of those in so many; 0 means of none
	Horizon       float64 // others decided up to so many seconds later count, seconds
}

// Truth is what one request would have taken on each of its candidates.
type Truth struct {
	Index  int // of the request among those given to New
	Chosen int

	// TTFT is the direct truth, seconds by candidate: the run goes as it did up to
	// the decision, takes that candidate instead, and goes on with every other
	// decision and draw as they were, until this request's first token. At Chosen it
	// is what happened.
	TTFT []float64

	// External is the sum of the other requests' TTFT on each candidate less what
	// it was, seconds; 0 at Chosen. It counts requests under way at the decision and
	// those decided within the horizon. Decode is the same of decodes held up. Both
	// are nil where they were not asked for.
	External []float64
	Decode   []float64
}

// Truth finds the truth of a run that is Done, by running its jobs a second time
// and branching off at each decision. A request with a single candidate has its own
// TTFT only. Neither a fit nor an estimate may read this.
func (s *Sim) Truth(plan Plan) ([]Truth, error) {
	if !s.Done() {
		return nil, errors.New("fleet truth: the run is not done: Advance(+Inf) first, for what happens next decides how long a request would have taken")
	}
	var out []Truth
	t := branches{sim: s, plan: plan, base: newCore(&s.cfg)}
	t.base.jobs = s.core.jobs
	for id := range s.entries {
		t.base.settle(s.core.jobs[id].at)
		t.forget()
		if e := &s.entries[id]; e.request >= 0 && t.drawn(e.request, 0, plan.Every) {
			out = append(out, t.of(int32(id)))
		}
		t.base.place(int32(id))
		t.underWay++
	}
	return out, nil
}

// branches is the second run: base goes as the first did, fork leaves it.
type branches struct {
	sim      *Sim
	plan     Plan
	base     *core
	fork     core
	underWay int // jobs in base without their first token
}

func (t *branches) forget() {
	t.underWay -= len(t.base.done)
	t.base.done, t.base.moved = t.base.done[:0], t.base.moved[:0]
}

func (t *branches) drawn(request int32, salt uint64, every int) bool {
	return every <= 1 || key(t.sim.cfg.Seed, uint64(request), salt, stageTruth)%uint64(every) == 0
}

func (t *branches) of(id int32) Truth {
	e := &t.sim.entries[id]
	out := Truth{Index: int(e.request), Chosen: int(e.chosen), TTFT: make([]float64, len(e.options))}
	external := t.plan.ExternalEvery > 0 && len(e.options) > 1 && t.drawn(e.request, 1, t.plan.ExternalEvery)
	if external {
		out.External, out.Decode = make([]float64, len(e.options)), make([]float64, len(e.options))
	}
	for i := range e.options {
		out.TTFT[i] = e.ttft
		if i != out.Chosen {
			out.TTFT[i] = t.direct(id, e.options[i])
		}
		if external {
			out.External[i], out.Decode[i] = t.external(id, e.options[i])
		}
	}
	for i := range out.Decode {
		if i != out.Chosen {
			out.Decode[i] -= out.Decode[out.Chosen]
		}
	}
	if external {
		out.Decode[out.Chosen] = 0
	}
	return out
}

// branch starts a fork in which job id is of option o.
func (t *branches) branch(id int32, o option, only int32) {
	s, j := t.sim, &t.sim.core.jobs[id]
	e := &s.entries[id]
	t.fork.forkFrom(t.base, only)
	t.fork.insteadID = id
	t.fork.instead = s.draw(s.cfg.Seed, uint64(e.request), o, j.at, s.requests[e.request].OutputTokens)
	t.fork.place(id)
}

// direct is the TTFT of job id on option o, everything else as it was.
func (t *branches) direct(id int32, o option) float64 {
	t.branch(id, o, o.worker)
	f, upcoming := &t.fork, int(id)+1
	for {
		for upcoming < len(f.jobs) && f.jobs[upcoming].at < f.next() {
			f.place(int32(upcoming))
			upcoming++
		}
		if math.IsInf(f.next(), 1) {
			return math.NaN() // not reached: the job itself is under way
		}
		f.step()
		for i := range f.done {
			if f.done[i].id == id {
				return f.done[i].at - f.instead.at
			}
		}
		f.done, f.moved = f.done[:0], f.moved[:0]
	}
}

// external is the sum of what the other requests gained or lost by job id being
// of option o, and the decodes' delay in that run.
func (t *branches) external(id int32, o option) (sum, decode float64) {
	t.branch(id, o, -1)
	f, upcoming, left := &t.fork, int(id)+1, t.underWay+1
	limit := f.instead.at + t.plan.Horizon
	for left > 0 || (upcoming < len(f.jobs) && f.jobs[upcoming].at <= limit) {
		for upcoming < len(f.jobs) && f.jobs[upcoming].at < f.next() {
			if f.jobs[upcoming].at <= limit {
				left++
			}
			f.place(int32(upcoming))
			upcoming++
		}
		if math.IsInf(f.next(), 1) {
			break
		}
		f.step()
		for i := range f.done {
			d := &f.done[i]
			j, e := f.job(d.id), &t.sim.entries[d.id]
			if j.at > limit {
				continue
			}
			left--
			if d.id != id && e.request >= 0 {
				sum += d.at - j.at - e.ttft
			}
		}
		f.done, f.moved = f.done[:0], f.moved[:0]
	}
	return sum, f.decodeDelay
}

// settle lets everything that is under way happen up to t.
func (c *core) settle(t float64) {
	for next := c.next(); next <= t && !math.IsInf(next, 1); next = c.next() {
		c.step()
	}
}
