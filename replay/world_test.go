package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

const start = int64(1_700_000_000_000_000_000)

func testPlan(t testing.TB, rate float64) *sample.Plan {
	plan, err := testPlanOf(rate)
	require.NoError(t, err)
	return plan
}

func testPlanOf(rate float64) (*sample.Plan, error) {
	p := sample.DefaultParams()
	p.Rate, p.Control, p.ControlRates = rate, rate, nil
	return sample.New(p, []byte("a salt for the tests of replay"))
}

// rich is limits that refuse nothing.
func rich() budget.Limits {
	return budget.Limits{Share: 1, GPURate: 1e9, ByteRate: 1e15, GPUBurst: 1e6, ByteBurst: 1e15}
}

// decisions makes n requests, one every 10 ms, three of four fetched. A fetch is
// slowed by the flows on its link, a recompute by the GPU's queue.
func decisions(n int) []*schema.Part {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]*schema.Part, n)
	for i := range out {
		p := &schema.Part{Kind: schema.KindContract, StartNanos: start + int64(i)*10_000_000}
		p.EndNanos = p.StartNanos + 1e9
		binary.BigEndian.PutUint64(p.Trace[:], uint64(i)+1)
		p.Span[0] = 1
		flows, queue := float64(r.IntN(12)), 0.1*r.ExpFloat64()
		bytes, compute := int64(1)<<(27+r.IntN(4)), 0.05+0.3*r.Float64()
		bandwidth := 50e9 / (1 + flows)
		fetch := schema.Candidate{
			Path: schema.PathFetch, Worker: "w", Tier: schema.TierCPU, Links: "fabric", Bytes: bytes, GPUQueue: queue,
			TransferQueue: 0.001, Bandwidth: bandwidth, Restore: 0.002, Recompute: 0.01, Externality: math.NaN(), Propensity: 0.75,
		}
		fetch.TTFT = math.Max(queue, 0.001+float64(bytes)/bandwidth) + 0.012
		recompute := schema.Candidate{
			Path: schema.PathRecompute, Worker: "w", Bytes: -1, GPUQueue: queue, TransferQueue: math.NaN(), Bandwidth: math.NaN(),
			Restore: math.NaN(), Recompute: compute, TTFT: queue + compute, Externality: math.NaN(), Propensity: 0.25,
		}
		p.Decision = schema.Decision{
			Policy: "always", Path: schema.PathFetch, Chosen: schema.Some[int64](0), Model: "m", GPU: "g", Worker: "w", Link: "fabric",
			SourceTier: schema.TierCPU, TokensPrompt: schema.Some[int64](5000), TokensPrefix: schema.Some[int64](int64(300 << (i % 4))),
			LinkFlows: schema.Some(int64(flows)), PrefixBlocks: []int64{int64(i)}, Candidates: []schema.Candidate{fetch, recompute},
		}
		truth := fetch.TTFT
		if i/4%4 == 3 {
			p.Decision.Path, p.Decision.Chosen, p.Decision.Link, truth = schema.PathRecompute, schema.Some[int64](1), "", recompute.TTFT
		}
		p.Observed.TTFT = schema.Some(truth * math.Exp(0.05*r.NormFloat64()))
		out[i] = p
	}
	return out
}

// sink gathers what is emitted.
type sink struct {
	mu    sync.Mutex
	parts []schema.Part
	fail  bool
}

var errAway = errors.New("the collector is away")

func (s *sink) emit(_ context.Context, p schema.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail {
		return errAway
	}
	s.parts = append(s.parts, p)
	return nil
}

func (s *sink) setFail(v bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = v
}

func (s *sink) ids() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, p := range s.parts {
		out[p.RequestID]++
	}
	return out
}

func newRunner(t testing.TB, store *Store, out *sink, change func(*Config)) *Runner {
	cfg := Config{Plan: testPlan(t, 0.2), Limits: rich(), Emit: out.emit, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg, store)
	require.NoError(t, err)
	r.ledger.Charge(0, budget.Charge{Worker: "w", Link: "fabric"}) // buckets fill from the epoch on
	return r
}
