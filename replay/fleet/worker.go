package fleet

import (
	"math"
	"slices"
)

// job is a request or a leg once it has been placed: everything that is drawn is
// in it, so that a second run of the same jobs is the same run.
type job struct {
	worker   int32
	low      bool    // a replay: runs where production leaves the GPU
	at       float64 // decided
	enqueue  float64 // joins the worker's queue
	flowAt   float64 // first byte; only where bytes > 0
	bytes    float64
	weight   float64 // of its flow
	restore  float64
	prefill  float64 // before interference
	chunks   float64
	decode   float64 // from the first token to the last
	estimate float64 // GPU seconds that the worker expects
}

// item is a job in a worker's queue. An instant that has not come is +Inf.
type item struct {
	id      int32
	enqueue float64
	ready   float64 // its state is there
	turn    float64 // the GPU would first have taken it
	prefill float64 // as run; −1 before
	total   float64 // GPU seconds: restore and prefill
	left    float64 // of total
	chunk   float64 // GPU seconds between the points where it can be set aside
	restore float64
}

// worker is one GPU: production in order of arrival, then replays.
type worker struct {
	prod, low []item // in order of arrival; the running item stays in
	running   int32  // job id, −1 where idle
	runLow    bool
	runStart  float64
	next      float64 // when the running item ends or is set aside; +Inf where idle
	preempt   bool    // next is a chunk boundary
	decodes   []float64
	expected  float64 // sum of the estimates in prod of what is ready
}

func newWorker() worker { return worker{running: -1, next: math.Inf(1)} }

// active is how many requests decode at t.
func (w *worker) active(t float64) int {
	kept := w.decodes[:0]
	for _, end := range w.decodes {
		if end > t {
			kept = append(kept, end)
		}
	}
	w.decodes = kept
	return len(kept)
}

// idle says that nothing of production is here, running or waiting, and no replay.
func (w *worker) idle() bool { return len(w.prod) == 0 && len(w.low) == 0 }

// find gives the item of a job, nil where it is not here.
func (w *worker) find(id int32) *item {
	for _, q := range [2][]item{w.prod, w.low} {
		if i := position(q, id); i >= 0 {
			return &q[i]
		}
	}
	return nil
}

// enqueue puts a job in the queue. ready is +Inf while its state is on the way.
func (w *worker) enqueue(c *core, j *job, id int32, t, ready float64) {
	it := item{id: id, enqueue: t, ready: math.Inf(1), turn: math.Inf(1), prefill: -1, restore: j.restore}
	if j.low {
		w.low = append(w.low, it)
	} else {
		w.prod = append(w.prod, it)
	}
	if ready <= t {
		w.arrive(c, id, t)
	} else if w.running < 0 {
		w.dispatch(c, t)
	}
}

// arrive says that the state of a job is there: it runs, or asks for the next
// chunk boundary where it has precedence over what runs.
func (w *worker) arrive(c *core, id int32, t float64) {
	it := w.find(id)
	if it == nil {
		return
	}
	it.ready = t
	if j := c.job(id); !j.low {
		w.expected += j.estimate
	}
	switch {
	case w.running < 0:
		w.dispatch(c, t)
	case w.precedes(id, c.cfg.ReplayYields):
		w.boundary(t)
	}
}

// precedes says whether a waiting job goes before the running one: an earlier one
// of its class does, and production before a replay that yields.
func (w *worker) precedes(id int32, yields bool) bool {
	if w.runLow && position(w.prod, id) >= 0 {
		return yields
	}
	q := w.prod
	if w.runLow {
		q = w.low
	}
	at := position(q, id)
	return at >= 0 && at < position(q, w.running)
}

// position is where a job is in q, −1 where it is not.
func position(q []item, id int32) int {
	for i := range q {
		if q[i].id == id {
			return i
		}
	}
	return -1
}

// boundary makes the running item stop at its next chunk boundary after t.
func (w *worker) boundary(t float64) {
	if w.preempt {
		return
	}
	it := w.find(w.running)
	before := it.total - it.left
	done := before + (t - w.runStart)
	stop := it.restore
	if done > stop {
		stop += math.Ceil((done-it.restore)/it.chunk) * it.chunk
	}
	if at := w.runStart + (stop - before); at < w.next-1e-9 {
		w.next, w.preempt = math.Max(t, at), true
	}
}

// dispatch gives the idle GPU to the first item whose state is there. Those that
// it passes over have had their turn: from now on the transfer holds them up.
func (w *worker) dispatch(c *core, t float64) {
	w.running, w.next, w.preempt = -1, math.Inf(1), false
	for k, q := range [2][]item{w.prod, w.low} {
		for i := range q {
			if q[i].ready <= t {
				w.start(c, &q[i], t, k == 1)
				return
			}
			q[i].turn = math.Min(q[i].turn, t)
		}
	}
}

func (w *worker) start(c *core, it *item, t float64, low bool) {
	if it.prefill < 0 {
		j := c.job(it.id)
		it.prefill = j.prefill * (1 + c.cfg.Interference*float64(w.active(t)))
		it.total = it.restore + it.prefill
		it.left, it.chunk = it.total, it.prefill/j.chunks
		for i := range w.decodes {
			w.decodes[i] += c.cfg.DecodeShare * it.prefill
		}
		c.decodeDelay += float64(len(w.decodes)) * c.cfg.DecodeShare * it.prefill
	}
	w.running, w.runLow, w.runStart, w.next = it.id, low, t, t+it.left
}

// step does what next announced.
func (w *worker) step(c *core) {
	t, it := w.next, w.find(w.running)
	if w.preempt {
		it.left -= t - w.runStart
	} else {
		w.finish(c, it, t)
	}
	w.dispatch(c, t)
}

func (w *worker) finish(c *core, it *item, t float64) {
	j := c.job(it.id)
	c.done = append(c.done, finished{id: it.id, at: t, item: *it})
	q := &w.prod
	if j.low {
		q = &w.low
	} else {
		w.expected -= j.estimate
		w.decodes = append(w.decodes, t+j.decode)
	}
	*q = slices.Delete(*q, position(*q, it.id), position(*q, it.id)+1)
	if len(w.prod) == 0 {
		w.expected = 0
	}
}

// backlog is the production work that the worker would say it has, seconds: what
// could run. A request that waits for its transfer holds nobody up until then.
func (w *worker) backlog(c *core, t float64) float64 {
	left := w.expected
	if w.running >= 0 {
		it, j := w.find(w.running), c.job(w.running)
		done := it.total - it.left + t - w.runStart
		if w.runLow { // what is left of the replay, or of its chunk, holds production up
			held := math.Max(0, j.estimate-done)
			if c.cfg.ReplayYields {
				held = math.Min(held, it.chunk)
			}
			return math.Max(0, left) + held
		}
		left -= math.Min(done, j.estimate)
	}
	return math.Max(0, left)
}

// copyFrom makes w the same as o, reusing w's memory.
func (w *worker) copyFrom(o *worker) {
	prod, low := append(w.prod[:0], o.prod...), append(w.low[:0], o.low...)
	decodes := append(w.decodes[:0], o.decodes...)
	*w = *o
	w.prod, w.low, w.decodes = prod, low, decodes
}
