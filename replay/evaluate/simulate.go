package evaluate

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Arrival is one logged request as the simulator runs it again.
type Arrival struct {
	At       float64 // seconds since any common start
	Decision *schema.Decision
	TTFT     float64 // as observed, seconds; NaN: not known
	Blocks   []int64 // of its prefix; none: not known
}

// Fleet is what the simulator is to be made of.
type Fleet struct {
	Document *schema.Document // its laws are the simulated fleet's
	Link     string           // the one link that is simulated
	Workers  int              // 1 to fleet.MaxWorkers
	Runs     int              // of each policy, on noise of its own; 5
	Seed     uint64
	MaxError float64 // how far the simulated mean under the logged choices may lie from the observed one, as a share; 0.25
	Noise    fleet.Noise
}

// Simulated is a policy's value by whole runs of a simulated fleet, with what it
// does to queues and caches. Seconds of TTFT a request.
type Simulated struct {
	Known bool
	Why   string // why not, where Known is false

	Value    Estimate // mean under the policy, over runs
	Logged   Estimate // mean under the logged choices, in the simulator
	Change   Estimate // policy less logged, run by run
	Observed float64  // mean as it was
	Error    float64  // Logged against Observed, as a share of it

	N           int     // requests
	Runs        int     // of each
	Shared      int     // requests of which the prefix blocks are known
	NotPossible float64 // share of the logged choices that the simulated caches did not allow
	LinkLogged  float64 // load of the link under the logged choices
	LinkPolicy  float64
	GPULogged   float64 // load of the GPUs
	GPUPolicy   float64
	CacheBlocks int // of a worker, chosen so that the logged choices take as long as they did
	Assumptions []string
}

// cacheSizes are tried in turn: blocks of 512 tokens that a worker keeps.
var cacheSizes = []int{0, 256, 1024, 4096, 16384}

// Simulate runs the logged requests under the logged choices and under the policy.
// An argument that cannot be is an error; a fleet that the simulator does not
// resemble is a refusal.
func Simulate(arrivals []Arrival, p *Policy, f Fleet) (Simulated, error) {
	out := Simulated{Value: unknown(), Logged: unknown(), Change: unknown(), Observed: math.NaN(), Error: math.NaN()}
	if f.Runs == 0 {
		f.Runs = 5
	}
	if f.MaxError == 0 {
		f.MaxError = 0.25
	}
	m, why := newModel(arrivals, f)
	if out.Why = why; why != "" {
		return out, nil
	}
	out.N, out.Runs, out.Shared, out.Observed = len(m.requests), f.Runs, m.shared, m.observed
	if err := m.calibrate(&out); err != nil {
		return out, err
	}
	out.Assumptions = m.assumptions(f, out.CacheBlocks)
	if math.Abs(out.Error) > f.MaxError {
		out.Why = fmt.Sprintf("under the logged choices the simulated fleet takes %.4g ms where %.4g were observed (%+.0f %%, %.0f %% allowed): it is not this fleet; calibrate, or run a switchback", 1e3*out.Logged.Value, 1e3*m.observed, 100*out.Error, 100*f.MaxError)
		out.Logged = unknown()
		return out, nil
	}
	return out, m.compare(&out, p)
}

// Decider is the policy in a simulated fleet.
func (p *Policy) Decider(predict fleet.Predictor) fleet.Decider {
	return func(q *fleet.Query) int {
		predict(q)
		d := &schema.Decision{
			Model: q.Model, GPU: q.GPU, Candidates: q.Candidates, Link: q.Link,
			LinkFlows: schema.Some(int64(math.Max(0, q.View.Own+q.View.Others))),
		}
		by := representatives(q)
		path, ok := p.pick(d, by, q.Candidates[0].Path)
		if !ok || by[path] < 0 {
			return 0
		}
		return by[path]
	}
}

// compare runs both on the same noise.
func (m *model) compare(out *Simulated, p *Policy) error {
	var logged, value, change []float64
	m.prior.Arrivals = float64(len(m.requests)) / math.Max(1, m.requests[len(m.requests)-1].At) / float64(m.cfg.Workers)
	m.prior.MeanBytes = m.meanBytes()
	decide := p.Decider(m.prior.Predict)
	if p.Kind == KindLogged {
		decide = m.asLogged
	}
	for run := range m.runs {
		seed := m.cfg.Seed + uint64(run) + 1
		a, before, err := m.run(seed, m.asLogged)
		if err != nil {
			return fmt.Errorf("simulate the logged choices: %w", err)
		}
		b, after, err := m.run(seed, decide)
		if err != nil {
			return fmt.Errorf("simulate policy %s: %w", p.Name, err)
		}
		logged, value, change = append(logged, a), append(value, b), append(change, b-a)
		out.LinkLogged, out.GPULogged, out.LinkPolicy, out.GPUPolicy = before.Offered, before.GPU, after.Offered, after.GPU
	}
	out.Logged, out.Value, out.Change = overRuns(logged), overRuns(value), overRuns(change)
	if math.IsNaN(out.Change.Lo) {
		out.Why = "fewer than three runs of each: give more"
		out.Value, out.Change = unknown(), unknown()
		return nil
	}
	out.Known = true
	return nil
}

func (m *model) meanBytes() float64 {
	tokens := 0.0
	for _, r := range m.requests {
		tokens += float64(len(r.Blocks) * fleet.BlockTokens)
	}
	return math.Max(1, tokens*m.cfg.BytesPerToken/float64(len(m.requests)))
}

func overRuns(x []float64) Estimate {
	d := estimate.AcrossRuns(x, len(x))
	return Estimate{d.Mean, (d.Hi - d.Lo) / 2, d.Lo, d.Hi}
}

func (m *model) assumptions(f Fleet, cache int) []string {
	law := m.prior.Transfer
	out := []string{
		fmt.Sprintf("laws of coefficients revision %d: prefill %s, link %s of %.4g GB/s, t0 %.3g ms", f.Document.Revision, formula(m.prior.Prefill), f.Link, law.Link.B/1e9, 1e3*law.T0),
		fmt.Sprintf("%d workers that keep %d blocks of %d tokens each (of %v, the size by which the logged choices take as long as they did); a request goes to the less busy of two", f.Workers, cache, fleet.BlockTokens, cacheSizes),
		"every prefix that was logged as held is in the tier throughout; arrivals, prompts and prefixes are as logged",
		"no decoding, no traffic of others on the link, one coordinator that knows the link exactly",
		"the interval is of the simulator's noise over runs, not of these assumptions",
	}
	if m.shared < len(m.requests) {
		out = append(out, fmt.Sprintf("of %d requests the prefix blocks are not known: their prefixes are taken to be their own, in the tier only", len(m.requests)-m.shared))
	}
	return out
}

func formula(p cost.Prefill) string {
	return fmt.Sprintf("%.3g ms a chunk + %.3g µs a token + %.3g ns a token squared", 1e3*p.C0, 1e6*p.C1, 1e9*p.C2)
}
