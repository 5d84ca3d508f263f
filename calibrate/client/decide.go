package client

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Request is one decision to make.
type Request struct {
	Key        uint64  // hash of the request's id: tosses the coin of ties
	Budget     float64 // latest acceptable TTFT, seconds; 0 or less: none
	Candidates []Candidate
	Links      []Link // what Candidate.Link points into
}

// Candidate is one way in which the request could run: a worker, and how the
// prefix gets there. Resident + Fetched + Computed is the prompt.
type Candidate struct {
	Path     schema.Path
	Prefill  PrefillKey
	Transfer TransferKey // where Bytes is above 0
	Restore  RestoreKey  // where Bytes is above 0
	Link     int         // index in Request.Links, where Bytes is above 0; −1: nothing is known of it

	Resident int64 // tokens in that GPU already
	Fetched  int64 // tokens that would be moved
	Computed int64 // tokens that would be computed
	Bytes    int64 // that would be moved

	GPUQueue      float64 // as the worker reports it, seconds
	Hop           float64 // to reach another worker, seconds
	TransferQueue float64 // wait before the transfer begins, beyond its fixed costs, seconds
	Cold          bool    // first use of this pair
	Unheld        bool    // the worker gives the slot away while the request waits

	Arrivals  float64 // requests a second at the worker
	Load      float64 // of its GPU, 0 to below 1
	Active    float64 // requests decoding there
	AddedStep float64 // seconds that this prefill adds to their steps
}

// Link is what the coordinator knows of one link.
type Link struct {
	Own       float64 // transfers of its own in flight
	Others    float64 // transfers of others when last heard; NaN: never heard
	Age       float64 // since then, seconds
	Remaining float64 // mean bytes that a flow there has left; 0: taken to be this transfer's
}

// Flags say what a prediction rests on. No flag: all fitted, all inside.
type Flags uint16

// The flags.
const (
	PrefillFallback  Flags = 1 << iota // no prefill law, or a prompt longer than any seen
	TransferFallback                   // no transfer law, or more bytes or flows than any seen
	RestoreFallback                    // no restore law, or more bytes than any seen
	QueueUnfitted                      // the GPU queue is the worker's word
	LinkUnknown                        // flows of others on the link are not known, and taken as none
	Priced                             // the externality of the transfer is the link's price
	OverBudget                         // misses the latency budget
	Unpredictable                      // a term is not a number
)

// maxGPULoad bounds ρg in the externality of a recompute, which has a pole at 1.
const maxGPULoad = 0.95

// Prediction is the terms of one candidate, ready to be logged. Seconds, unless
// said. NaN is "not applicable".
type Prediction struct {
	GPUQueue      float64
	TransferQueue float64 // t0 + cold + Qn
	Bandwidth     float64 // bytes/s
	Transfer      float64 // on the wire
	Restore       float64
	Recompute     float64 // of Computed
	TTFT          float64
	Externality   float64
	Propensity    float64 // probability of this choice; 0 where it could not be chosen
	Flags         Flags
}

// Fill writes p's terms into c, which the coordinator has described already.
func (p *Prediction) Fill(c *schema.Candidate) {
	c.GPUQueue, c.TransferQueue, c.Bandwidth = p.GPUQueue, p.TransferQueue, p.Bandwidth
	c.Restore, c.Recompute = p.Restore, p.Recompute
	c.TTFT, c.Externality, c.Propensity = p.TTFT, p.Externality, p.Propensity
}

// Decision is which candidate to run.
type Decision struct {
	Chosen      int // index; −1 only where there are no candidates
	Revision    int64
	State       State
	Tied        int  // candidates that the coin was tossed among
	Infeasible  bool // every candidate misses the budget: this is the fastest
	Predictions []Prediction
}

// Decide predicts each candidate and chooses the least of own TTFT + externality
// among those that meet the budget, or the least TTFT if none does. Candidates
// closer than Config.TieFraction are tied, and chosen among by Key and Salt. A
// priced link's externality is its toll, which makes the comparison with a
// recompute cost.Price.Admit; a link without a price charges the delay of the
// flows that are on it.
//
// Predictions are written into out where it is long enough; then nothing is
// allocated. It is safe for concurrent use, each caller with its own out.
func (c *Client) Decide(r *Request, out []Prediction) Decision {
	l := c.laws.Load()
	n := len(r.Candidates)
	if cap(out) < n {
		out = make([]Prediction, n)
	}
	out = out[:n]
	for i := range r.Candidates {
		l.predict(r, &r.Candidates[i], &out[i])
	}
	d := Decision{Chosen: -1, Revision: l.revision, State: l.state, Predictions: out}
	if n > 0 {
		l.choose(r, out, &d)
	}
	return d
}

func (l *laws) predict(r *Request, c *Candidate, p *Prediction) {
	*p = Prediction{TransferQueue: math.NaN(), Bandwidth: math.NaN(), Transfer: math.NaN(), Restore: math.NaN()}
	p.GPUQueue = l.gpuQueue(c.GPUQueue, &p.Flags)
	p.Recompute = l.recompute(c, &p.Flags)
	p.Externality = l.imposedOnGPU(c, p)
	path := cost.Path{Hop: c.Hop, GPUQueue: p.GPUQueue, Prefill: p.Recompute}
	if c.Bytes > 0 {
		l.predictFetch(r, c, p)
		path.TransferQueue, path.Transfer, path.Restore = p.TransferQueue, p.Transfer, p.Restore
		if c.Unheld {
			path.Omega = l.omega
		}
	}
	p.TTFT = path.TTFT()
	if !(p.TTFT+p.Externality < math.Inf(1)) {
		p.Flags |= Unpredictable
	}
	if r.Budget > 0 && p.TTFT > r.Budget {
		p.Flags |= OverBudget
	}
}

func (l *laws) gpuQueue(reported float64, flags *Flags) float64 {
	if !l.queueFitted {
		*flags |= QueueUnfitted
		return reported
	}
	if q := l.queueBias + l.queueSlope*reported; !(q < 0) {
		return q
	}
	return 0
}

func (l *laws) recompute(c *Candidate, flags *Flags) float64 {
	before, n := float64(c.Resident+c.Fetched), float64(c.Computed)
	law := &l.prefill[0]
	if uint(c.Prefill) < uint(len(l.prefill)) {
		law = &l.prefill[c.Prefill]
	}
	if before+n > law.maxTokens {
		*flags |= PrefillFallback
		law = &l.prefill[0]
	}
	return law.law.Seconds(n, before)
}

// imposedOnGPU is what computing costs the worker's other requests.
func (l *laws) imposedOnGPU(c *Candidate, p *Prediction) float64 {
	e := 0.0
	if c.Arrivals > 0 {
		e = cost.ComputeExternality(p.Recompute, p.GPUQueue, c.Arrivals, min(c.Load, maxGPULoad))
	}
	if l.tpotWeight > 0 {
		e += cost.DecodeExternality(c.Active, c.AddedStep, l.tpotWeight)
	}
	return e
}

func (l *laws) predictFetch(r *Request, c *Candidate, p *Prediction) {
	t := &l.transfer[0]
	if uint(c.Transfer) < uint(len(l.transfer)) {
		t = &l.transfer[c.Transfer]
	}
	view, known := viewOf(r, c)
	if !known {
		p.Flags |= LinkUnknown
	}
	flows := t.flows(view)
	bytes := float64(c.Bytes)
	if bytes > t.maxBytes || 1+flows > max(1, t.maxConcurrent) {
		p.Flags |= TransferFallback
		t = &l.transfer[0]
		flows = t.flows(view)
	}
	size := t.law.WireBytes(bytes)
	p.TransferQueue = t.law.T0 + c.TransferQueue
	if c.Cold {
		p.TransferQueue += t.law.Cold
	}
	p.Transfer = t.law.Link.WireSeconds(size, 1+flows)
	p.Bandwidth = bytes / p.Transfer
	p.Restore = l.restoreSeconds(c, bytes, &p.Flags)
	if t.priced {
		p.Flags |= Priced
		p.Externality += t.price.Toll(size, flows, t.law.Link.B)
		return
	}
	remaining := size
	if c.Link >= 0 && c.Link < len(r.Links) && r.Links[c.Link].Remaining > 0 {
		remaining = r.Links[c.Link].Remaining
	}
	p.Externality += cost.MeanExternality(t.law.Link, size, flows, remaining)
}

// viewOf is what is known of c's link; known is false where others' flows are not.
func viewOf(r *Request, c *Candidate) (v cost.View, known bool) {
	if c.Link < 0 || c.Link >= len(r.Links) {
		return cost.View{Age: math.Inf(1)}, false
	}
	link := &r.Links[c.Link]
	if link.Others != link.Others {
		return cost.View{Own: link.Own, Age: math.Inf(1)}, false
	}
	return cost.View{Own: link.Own, Others: link.Others, Age: link.Age}, true
}

// flows is how many other transfers to expect.
func (t *transferLaw) flows(v cost.View) float64 {
	if !t.priced {
		return max(0, v.Own+v.Others)
	}
	v.Coordinators = t.coordinators
	return t.price.ExpectedFlows(v, t.law.Link.B)
}

func (l *laws) restoreSeconds(c *Candidate, bytes float64, flags *Flags) float64 {
	law := &l.restore[0]
	if uint(c.Restore) < uint(len(l.restore)) {
		law = &l.restore[c.Restore]
	}
	if bytes > law.maxBytes {
		*flags |= RestoreFallback
		law = &l.restore[0]
	}
	return law.law.Seconds(bytes)
}
