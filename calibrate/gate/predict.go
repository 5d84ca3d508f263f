package gate

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Request is one held-out request: what was known when it was decided, and how
// long it took.
type Request struct {
	AtNanos       int64 // Unix nanoseconds
	Path          schema.Path
	Model, GPU    string
	Tier          schema.Tier
	Link          string
	Prefix        int64   // tokens that somebody held
	Computed      float64 // tokens
	Before        float64 // tokens that were not computed
	Bytes         float64 // moved
	ReportedQueue float64 // Qg as reported, seconds
	Flows         float64 // transfers on the link at the decision, without its own
	TTFT          float64 // observed, seconds
}

// Model predicts by one document.
type Model struct {
	prefill  map[[2]string]cost.Prefill
	transfer map[[2]string]cost.Transfer
	restore  map[[2]string]cost.Restore
	queue    schema.QueueFit
}

// NewModel indexes d; of nil it predicts nothing.
func NewModel(d *schema.Document) Model {
	m := Model{prefill: map[[2]string]cost.Prefill{}, transfer: map[[2]string]cost.Transfer{}, restore: map[[2]string]cost.Restore{}}
	if d == nil {
		return m
	}
	for _, f := range d.Prefill {
		m.prefill[[2]string{f.Model, f.GPU}] = f.Law
	}
	for _, f := range d.Transfer {
		m.transfer[[2]string{f.Tier, f.Link}] = f.Law
	}
	for _, f := range d.Restore {
		m.restore[[2]string{f.Model, f.Tier}] = f.Law
	}
	m.queue = d.Queue
	return m
}

// Predict is the TTFT of r, seconds; NaN where a law of it is missing. A restore
// law that is missing counts as no time.
func (m Model) Predict(r Request) float64 {
	prefill, ok := m.prefill[[2]string{r.Model, r.GPU}]
	if !ok {
		return math.NaN()
	}
	path := cost.Path{GPUQueue: r.ReportedQueue, Prefill: prefill.Seconds(r.Computed, r.Before)}
	if m.queue.Quality.N > 0 {
		path.GPUQueue = max(0, m.queue.Bias+m.queue.Slope*r.ReportedQueue)
	}
	if r.Bytes > 0 {
		transfer, ok := m.transfer[[2]string{r.Tier.String(), r.Link}]
		if !ok {
			return math.NaN()
		}
		path.TransferQueue = transfer.T0
		path.Transfer = transfer.WireSeconds(r.Bytes, 1+max(0, r.Flows))
		path.Restore = m.restore[[2]string{r.Model, r.Tier.String()}].Seconds(r.Bytes)
	}
	return path.TTFT()
}

// Slice is where a case is counted.
type Slice struct {
	Path string
	Size int // schema.SizeBucket
	Link string
}

// Case is one held-out request with what each document said of it, seconds. NaN:
// it said nothing.
type Case struct {
	Slice                Slice
	AtNanos              int64
	Observed             float64
	Champion, Challenger float64
}

// Cases predicts requests by both documents; champion may be nil.
func Cases(requests []Request, champion, challenger *schema.Document) []Case {
	old, fresh := NewModel(champion), NewModel(challenger)
	out := make([]Case, 0, len(requests))
	for _, r := range requests {
		if !(r.TTFT > 0) {
			continue
		}
		out = append(out, Case{
			Slice:   Slice{Path: r.Path.String(), Size: schema.SizeBucket(r.Prefix), Link: r.Link},
			AtNanos: r.AtNanos, Observed: r.TTFT, Champion: old.Predict(r), Challenger: fresh.Predict(r),
		})
	}
	return out
}
