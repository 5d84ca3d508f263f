package fleet

import "math"

// start is a placed job's next step that lies in the future: it joins its
// worker's queue, or its first byte goes on the wire.
type start struct {
	at   float64
	id   int32
	flow bool
}

// finished is a job whose first token came.
type finished struct {
	id   int32
	at   float64
	item item
}

// core is the fleet without its decisions: the link, the GPUs and the jobs that
// were placed on them. What happens on the link does not depend on the GPUs, for
// a transfer starts a fixed time after its decision; so a fork needs the link and
// the one worker that it asks about.
type core struct {
	cfg       *Config
	link      link
	workers   []worker
	only      int32 // the worker that is simulated, −1 for all
	starts    []start
	jobs      []job // by id; forks share it
	instead   job   // in a fork, what job insteadID does
	insteadID int32

	done        []finished // since the caller last emptied it
	moved       []int32    // jobs whose transfer ended, likewise
	decodeDelay float64    // total that prefills added to decodes in flight, seconds
}

func newCore(cfg *Config) *core {
	c := &core{cfg: cfg, only: -1, insteadID: -1, workers: make([]worker, cfg.Workers)}
	c.link = link{law: cfg.Link.Law, background: cfg.Background, seed: cfg.Seed}
	for i := range c.workers {
		c.workers[i] = newWorker()
	}
	return c
}

func (c *core) job(id int32) *job {
	if id == c.insteadID {
		return &c.instead
	}
	return &c.jobs[id]
}

// place makes a job happen. Its decision is not before the last event.
func (c *core) place(id int32) {
	j := c.job(id)
	if j.bytes > 0 {
		c.push(start{at: j.flowAt, id: id, flow: true})
	}
	if j.enqueue > j.at {
		c.push(start{at: j.enqueue, id: id})
	} else {
		c.join(j, id, j.at)
	}
}

func (c *core) join(j *job, id int32, t float64) {
	if c.only >= 0 && c.only != j.worker {
		return
	}
	ready := t
	if j.bytes > 0 {
		ready = math.Inf(1)
	}
	c.workers[j.worker].enqueue(c, j, id, t, ready)
}

// next is when the next event is; +Inf where nothing is under way.
func (c *core) next() float64 {
	t, _ := c.pending()
	return t
}

const (
	onLink   = -1
	onStarts = -2
)

// pending is the next event and where: a worker's index, onLink or onStarts. At
// one instant the link goes first, then starts, then workers by index.
func (c *core) pending() (t float64, where int) {
	t, where = c.link.next(), onLink
	if len(c.starts) > 0 && c.starts[0].at < t {
		t, where = c.starts[0].at, onStarts
	}
	if c.only >= 0 {
		if n := c.workers[c.only].next; n < t {
			t, where = n, int(c.only)
		}
		return t, where
	}
	for i := range c.workers {
		if n := c.workers[i].next; n < t {
			t, where = n, i
		}
	}
	return t, where
}

// step makes the next event happen.
func (c *core) step() {
	t, where := c.pending()
	switch where {
	case onLink:
		c.stepLink(t)
	case onStarts:
		s := c.popStart()
		j := c.job(s.id)
		if s.flow {
			c.link.add(t, j.bytes, j.weight, s.id)
		} else {
			c.join(j, s.id, t)
		}
	default:
		c.workers[where].step(c)
	}
}

func (c *core) stepLink(t float64) {
	id := c.link.step()
	if id < 0 {
		return
	}
	c.moved = append(c.moved, id)
	if w := c.job(id).worker; c.only < 0 || c.only == w {
		c.workers[w].arrive(c, id, t)
	}
}

func (a start) before(b start) bool {
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.id != b.id:
		return a.id < b.id
	}
	return a.flow && !b.flow
}

// push keeps starts sorted: a handful lie within T0 and Hop of now.
func (c *core) push(s start) {
	c.starts = append(c.starts, s)
	for i := len(c.starts) - 1; i > 0 && c.starts[i].before(c.starts[i-1]); i-- {
		c.starts[i], c.starts[i-1] = c.starts[i-1], c.starts[i]
	}
}

func (c *core) popStart() start {
	s := c.starts[0]
	c.starts = append(c.starts[:0], c.starts[1:]...)
	return s
}

// forkFrom makes c a copy of o that goes its own way, simulating only one worker
// (−1: all). It reuses c's memory and shares o's jobs.
func (c *core) forkFrom(o *core, only int32) {
	c.cfg, c.only, c.jobs = o.cfg, only, o.jobs
	c.insteadID = -1
	c.link.copyFrom(&o.link)
	c.starts = append(c.starts[:0], o.starts...)
	c.done, c.moved, c.decodeDelay = c.done[:0], c.moved[:0], 0
	if len(c.workers) != len(o.workers) {
		c.workers = make([]worker, len(o.workers))
	}
	for i := range o.workers {
		if only < 0 || int32(i) == only {
			c.workers[i].copyFrom(&o.workers[i])
		}
	}
}
