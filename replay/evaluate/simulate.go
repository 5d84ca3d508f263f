package evaluate

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/sample"
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

// model is a fleet made of logged traffic.
type model struct {
	cfg      fleet.Config
	runs     int
	requests []fleet.Request
	choices  []schema.Path
	observed float64
	shared   int
	prior    fleet.Prior
	missed   int // logged choices that a run could not take
}

func newModel(arrivals []Arrival, f Fleet) (*model, string) {
	m := &model{runs: f.Runs}
	switch {
	case f.Document == nil:
		return nil, "no coefficients are published, and the simulated fleet is made of them: run `kvwhatif calibrate`"
	case f.Workers < 1 || f.Workers > fleet.MaxWorkers:
		return nil, fmt.Sprintf("the window has %d workers: the simulator has 1 to %d, judge a part with --link or --model", f.Workers, fleet.MaxWorkers)
	case len(arrivals) < 100:
		return nil, fmt.Sprintf("%d requests, 100 needed to simulate", len(arrivals))
	}
	bytesPerToken, prefix := m.take(arrivals)
	if bytesPerToken == 0 {
		return nil, "no request had a candidate to fetch with its bytes: there is no link to simulate"
	}
	tier := m.tier(arrivals, f.Link)
	why := m.laws(arrivals[0].Decision, f, tier)
	m.cfg.Workers, m.cfg.BytesPerToken = f.Workers, bytesPerToken
	store := map[int64]bool{}
	warm := &fleet.Snapshot{Workers: make([][]int64, f.Workers)}
	for _, r := range m.requests {
		for _, b := range r.Blocks {
			if !store[b] {
				store[b], warm.Store = true, append(warm.Store, b)
			}
		}
	}
	m.cfg.StoreBlocks, m.cfg.Warm = len(store)+prefix/fleet.BlockTokens+64*len(arrivals), warm
	return m, why
}

// take reads the traffic; it gives the KV bytes of a token and the largest prompt.
func (m *model) take(arrivals []Arrival) (bytesPerToken float64, longest int) {
	first := math.Inf(1)
	for i := range arrivals {
		first = math.Min(first, arrivals[i].At)
	}
	sum, n, bytes, tokens := 0.0, 0.0, 0.0, 0.0
	for i := range arrivals {
		a := &arrivals[i]
		d := a.Decision
		if finite(a.TTFT) {
			sum, n = sum+a.TTFT, n+1
		}
		if len(a.Blocks) > 0 {
			m.shared++
		}
		prompt := promptOf(d)
		longest = max(longest, int(prompt))
		m.requests = append(m.requests, fleet.Request{At: a.At - first, PromptTokens: prompt, Blocks: blocksFor(a, i)})
		m.choices = append(m.choices, d.Path)
		for j := range d.Candidates {
			if c := &d.Candidates[j]; c.Path == schema.PathFetch && c.Bytes > 0 && c.TokensFetched > 0 {
				bytes, tokens = bytes+float64(c.Bytes), tokens+float64(c.TokensFetched)
			}
		}
	}
	m.observed = sum / n
	if tokens == 0 {
		return 0, longest
	}
	return bytes / tokens, longest
}

// promptOf is the request's prompt, by the count or by its candidates.
func promptOf(d *schema.Decision) int64 {
	prompt := d.TokensPrompt.Or(0)
	for i := range d.Candidates {
		c := &d.Candidates[i]
		prompt = max(prompt, max(0, c.TokensResident)+max(0, c.TokensFetched)+max(0, c.TokensComputed))
	}
	return max(1, prompt)
}

// blocksFor gives the request's prefix in blocks of the simulator's size. Blocks of
// another size are joined: as each stands for all before it, the last of a group
// names the group. Without any, the prefix is the request's own.
func blocksFor(a *Arrival, index int) []int64 {
	prefix := a.Decision.TokensPrefix.Or(0)
	n := int(prefix / fleet.BlockTokens)
	out := make([]int64, 0, n)
	for k := range n {
		if len(a.Blocks) == 0 {
			out = append(out, -int64(index)<<20-int64(k)-1)
			continue
		}
		last := (k + 1) * len(a.Blocks) * fleet.BlockTokens / int(prefix)
		out = append(out, a.Blocks[min(len(a.Blocks), max(1, last))-1])
	}
	return out
}

func (m *model) tier(arrivals []Arrival, link string) schema.Tier {
	var votes [8]int
	best := schema.TierCPU
	for i := range arrivals {
		for j := range arrivals[i].Decision.Candidates {
			c := &arrivals[i].Decision.Candidates[j]
			if c.Path == schema.PathFetch && bottleneck(c) == link && c.Tier != schema.TierPeer {
				if votes[c.Tier&7]++; votes[c.Tier&7] > votes[best&7] {
					best = c.Tier
				}
			}
		}
	}
	return best
}

// laws takes the fleet's laws from the document.
func (m *model) laws(d *schema.Decision, f Fleet, tier schema.Tier) (why string) {
	m.cfg = fleet.Config{
		Seed: f.Seed, Model: d.Model, GPU: d.GPU, ChunkTokens: 2048, Hop: 1e-3, Coordinators: 1, ReplayWeight: 1, SpeedUp: 1,
		Noise: f.Noise, Link: fleet.Link{Name: f.Link, Tier: tier},
	}
	found := 0
	for _, l := range f.Document.Prefill {
		if l.Model == d.Model && (l.GPU == d.GPU || d.GPU == "") {
			found |= 1
			m.prior.Prefill = l.Law
			if l.Law.Chunk > 0 {
				m.cfg.ChunkTokens = l.Law.Chunk
			}
		}
	}
	for _, l := range f.Document.Transfer {
		if l.Link == f.Link && l.Tier == tier.String() {
			found |= 2
			m.prior.Transfer = l.Law
			m.cfg.Link.Law, m.cfg.Link.T0 = l.Law.Link, l.Law.T0
		}
	}
	for _, l := range f.Document.Restore {
		if l.Model == d.Model && l.Tier == tier.String() {
			m.prior.Restore, m.cfg.Restore = l.Law, l.Law
		}
	}
	switch {
	case found&1 == 0:
		return fmt.Sprintf("the coefficients have no prefill law of model %q on GPU %q: calibrate with traffic of it", d.Model, d.GPU)
	case found&2 == 0:
		return fmt.Sprintf("the coefficients have no transfer law of tier %s over link %q: calibrate with traffic of it, or give --link", tier, f.Link)
	}
	for n := 1.0; n <= 1<<20; n *= 2 {
		m.cfg.Ladder = append(m.cfg.Ladder, fleet.Point{Tokens: n * 64, Seconds: m.prior.Prefill.Seconds(n*64, 0)})
	}
	m.prior.Hop = m.cfg.Hop
	return ""
}

// calibrate chooses the size of the workers' caches by which the logged choices take
// as long as they did.
func (m *model) calibrate(out *Simulated) error {
	best := math.Inf(1)
	for _, size := range cacheSizes {
		m.cfg.WorkerBlocks = size
		mean, load, err := m.run(m.cfg.Seed, m.asLogged)
		if err != nil {
			return fmt.Errorf("simulate the logged choices: %w", err)
		}
		if off := math.Abs(mean/m.observed - 1); off < best {
			best = off
			out.CacheBlocks, out.Error, out.Logged.Value = size, mean/m.observed-1, mean
			out.NotPossible = float64(m.missed) / float64(len(m.requests))
			out.LinkLogged, out.GPULogged = load.Offered, load.GPU
		}
	}
	m.cfg.WorkerBlocks = out.CacheBlocks
	m.prior.Load = math.Min(0.95, out.GPULogged)
	return nil
}

// run gives the mean TTFT of a run and its loads.
func (m *model) run(seed uint64, decide fleet.Decider) (float64, fleet.Load, error) {
	cfg := m.cfg
	cfg.Seed = seed
	m.missed = 0
	sim, err := fleet.New(cfg, m.requests, decide)
	if err != nil {
		return 0, fleet.Load{}, err
	}
	step := sim.Advance(math.Inf(1))
	if len(step.Outcomes) != len(m.requests) {
		return 0, fleet.Load{}, errors.New("the simulated run did not end")
	}
	sum := 0.0
	for i := range step.Outcomes {
		sum += step.Outcomes[i].Observed.TTFT.V
	}
	return sum / float64(len(m.requests)), sim.Load(), nil
}

// asLogged takes the path that was chosen, where the simulated caches allow it.
func (m *model) asLogged(q *fleet.Query) int {
	m.prior.Predict(q)
	by := representatives(q)
	want := m.choices[q.Index]
	if want == schema.PathResident && by[want] < 0 {
		want = schema.PathRecompute
	}
	if by[want] >= 0 {
		return by[want]
	}
	if want != schema.PathRecompute || by[schema.PathResident] < 0 {
		m.missed++
	}
	return 0
}

// representatives is, by path, the candidate that stands for it: of fetches the
// fullest.
func representatives(q *fleet.Query) (by [sample.NumPaths]int) {
	for i := range by {
		by[i] = -1
	}
	for i := range q.Candidates {
		by[q.Candidates[i].Path] = i
	}
	return by
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
