package evaluate

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

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
