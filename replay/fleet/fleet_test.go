package fleet_test

import (
	"math"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/publicdata"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// measured is the public data, read once.
var measured = sync.OnceValues(func() (points []fleet.Point, requests []fleet.Request) {
	rows, err := publicdata.Series("MCv")
	if err != nil {
		panic(err)
	}
	for _, r := range rows {
		points = append(points, fleet.Point{Tokens: r.Tokens, Seconds: r.PrefillMeasured})
	}
	all, err := publicdata.Conversation()
	if err != nil {
		panic(err)
	}
	for _, q := range all {
		requests = append(requests, fleet.Request{
			At: float64(q.Millis) / 1000, PromptTokens: q.InputTokens, OutputTokens: q.OutputTokens, Blocks: q.Blocks,
		})
	}
	return points, requests
})

// ladder is the demo's prefill law: TTFT without its transfer.
func ladder() []fleet.Point {
	points, _ := measured()
	return points
}

// conversation is the first n requests of the trace.
func conversation(n int) []fleet.Request {
	_, requests := measured()
	return requests[:n]
}

func fetchAll(share float64) fleet.Decider {
	return fleet.FetchAll(fleet.DefaultPredictor(), fleet.Exploration{Share: share, Salt: 1})
}

func run(t testing.TB, cfg fleet.Config, requests []fleet.Request, d fleet.Decider) (*fleet.Sim, []fleet.Outcome) {
	t.Helper()
	s, err := fleet.New(cfg, requests, d)
	require.NoError(t, err)
	out := s.Advance(math.Inf(1)).Outcomes
	require.True(t, s.Done())
	require.Len(t, out, len(requests))
	return s, out
}

var nan = cmpopts.EquateNaNs()

func TestSameSeedSameRunHoweverItIsStepped(t *testing.T) {
	cfg, requests := fleet.Busy(7, ladder()), conversation(2_000)
	_, want := run(t, cfg, requests, fetchAll(0.05))
	s, err := fleet.New(cfg, requests, fetchAll(0.05))
	require.NoError(t, err)
	var got []fleet.Outcome
	for until := 5.0; !s.Done(); until += 5 {
		step := s.Advance(until).Outcomes
		for _, o := range step {
			require.LessOrEqual(t, o.FirstToken, until)
			require.Greater(t, o.FirstToken, until-5)
		}
		got = append(got, step...)
	}
	require.Empty(t, cmp.Diff(want, got, nan))
	cfg.Seed = 8
	_, other := run(t, cfg, requests, fetchAll(0.05))
	require.NotEmpty(t, cmp.Diff(want[0], other[0], nan))
}

func TestStagesSumToTTFT(t *testing.T) {
	for name, cfg := range map[string]fleet.Config{"busy": fleet.Busy(1, ladder()), "calm": fleet.Calm(1, ladder())} {
		_, out := run(t, cfg, conversation(3_000), fetchAll(0.3))
		for _, o := range out {
			ob := o.Observed
			sum := ob.GPUQueue.V + ob.ExposedStall.V + ob.Restore.V + ob.Prefill.V + o.Hop
			require.InDelta(t, ob.TTFT.V, sum, 1e-9, "%s request %d", name, o.Index)
			require.InDelta(t, o.FirstToken-o.At, ob.TTFT.V, 1e-9)
			require.InDelta(t, o.Hop, ob.Remainder().V, 1e-9)
			require.Equal(t, o.Decision.Path == schema.PathFetch, ob.Bytes.V > 0)
			require.Equal(t, ob.Bytes.V > 0, ob.Transfer.OK)
			require.GreaterOrEqual(t, ob.ExposedStall.V, 0.0)
		}
	}
}

func TestDecisionsAreWhatTheContractSays(t *testing.T) {
	requests := conversation(3_000)
	_, out := run(t, fleet.Busy(1, ladder()), requests, fetchAll(0.3))
	seen := map[schema.Path]int{}
	for _, o := range out {
		d := o.Decision
		c := d.Candidates[d.Chosen.V]
		seen[d.Path]++
		require.Equal(t, c.Path, d.Path)
		require.Equal(t, c.Worker, d.Worker)
		require.Equal(t, c.Bytes, o.Observed.Bytes.V)
		propensity := 0.0
		for _, c := range d.Candidates {
			propensity += c.Propensity
			require.Equal(t, requests[o.Index].PromptTokens, c.TokensResident+c.TokensFetched+c.TokensComputed)
			require.GreaterOrEqual(t, c.TokensComputed, int64(1))
			require.Equal(t, c.TokensFetched > 0, c.Path == schema.PathFetch)
			require.False(t, math.IsNaN(c.TTFT))
			require.False(t, math.IsNaN(c.Externality))
		}
		require.InDelta(t, 1, propensity, 1e-12)
		require.Len(t, d.PrefixBlocks, int(d.TokensPrefix.V/fleet.BlockTokens))
		require.LessOrEqual(t, d.StateAge.V, 1.0)
	}
	require.Len(t, seen, 4, "every path is taken: %v", seen)
}

func TestOddInput(t *testing.T) {
	requests := conversation(300)
	same := []fleet.Request{{PromptTokens: 1}, {PromptTokens: 1}, {PromptTokens: 512, Blocks: []int64{5}}, {PromptTokens: 513, Blocks: []int64{5, 1 << 62}}, {PromptTokens: 5_000, Blocks: []int64{-5}}}
	for name, change := range map[string]func(*fleet.Config) []fleet.Request{
		"no requests":     func(*fleet.Config) []fleet.Request { return nil },
		"one worker":      func(c *fleet.Config) []fleet.Request { c.Workers, c.SpeedUp = 1, 0.5; return requests },
		"all workers":     func(c *fleet.Config) []fleet.Request { c.Workers = fleet.MaxWorkers; return requests },
		"no worker cache": func(c *fleet.Config) []fleet.Request { c.WorkerBlocks = 0; return requests },
		"no store":        func(c *fleet.Config) []fleet.Request { c.StoreBlocks = 0; return requests },
		"nothing cached":  func(c *fleet.Config) []fleet.Request { c.StoreBlocks, c.WorkerBlocks = 0, 0; return requests },
		"tiny caches":     func(c *fleet.Config) []fleet.Request { c.StoreBlocks, c.WorkerBlocks = 3, 2; return requests },
		"one instant":     func(c *fleet.Config) []fleet.Request { c.Grid = 0; return same },
		"exact state":     func(c *fleet.Config) []fleet.Request { c.Staleness = 0; return requests },
		"no noise": func(c *fleet.Config) []fleet.Request {
			c.Noise, c.Background, c.Link.Shares, c.Link.T0, c.Hop = fleet.Noise{}, fleet.Background{}, 0, 0, 0
			return requests
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fleet.Busy(1, ladder())
			requests := change(&cfg)
			s, out := run(t, cfg, requests, fetchAll(0.1))
			truth, err := s.Truth(fleet.Plan{ExternalEvery: 50, Horizon: 5})
			require.NoError(t, err)
			require.Len(t, truth, len(out))
			if cfg.StoreBlocks == 0 && cfg.WorkerBlocks == 0 {
				require.Zero(t, s.Load().Eligible)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	good := fleet.Busy(1, ladder())
	for want, change := range map[string]func(*fleet.Config, *[]fleet.Request){
		"Workers":          func(c *fleet.Config, _ *[]fleet.Request) { c.Workers = 0 },
		"from 1 to 64":     func(c *fleet.Config, _ *[]fleet.Request) { c.Workers = 65 },
		"Link.Law.B is":    func(c *fleet.Config, _ *[]fleet.Request) { c.Link.Law.B = math.NaN() },
		"ReplayWeight":     func(c *fleet.Config, _ *[]fleet.Request) { c.ReplayWeight = 0 },
		"2 or more":        func(c *fleet.Config, _ *[]fleet.Request) { c.Ladder = nil },
		"does not grow":    func(c *fleet.Config, _ *[]fleet.Request) { c.Ladder = []fleet.Point{{2, 2}, {1, 3}} },
		"same size":        func(c *fleet.Config, _ *[]fleet.Request) { c.Warm = &fleet.Snapshot{} },
		"fleet request 1:": func(_ *fleet.Config, r *[]fleet.Request) { *r = []fleet.Request{{PromptTokens: 1}, {}} },
		"at NaN s":         func(_ *fleet.Config, r *[]fleet.Request) { *r = []fleet.Request{{At: math.NaN(), PromptTokens: 1}} },
	} {
		cfg, requests := good, []fleet.Request(nil)
		change(&cfg, &requests)
		_, err := fleet.New(cfg, requests, fetchAll(0))
		require.ErrorContains(t, err, want)
	}
	_, err := fleet.New(good, nil, nil)
	require.ErrorContains(t, err, "no decider")
	s, err := fleet.New(good, conversation(10), fetchAll(0))
	require.NoError(t, err)
	_, err = s.Truth(fleet.Plan{})
	require.ErrorContains(t, err, "not done")
}

func TestNeverFetchingMovesNothing(t *testing.T) {
	s, out := run(t, fleet.Busy(1, ladder()), conversation(3_000), fleet.Never(fleet.DefaultPredictor(), fleet.Exploration{}))
	require.Zero(t, s.Load().Offered)
	require.Positive(t, s.Load().Eligible)
	for _, o := range out {
		require.Zero(t, o.Observed.Bytes.V)
		require.Zero(t, o.Observed.ExposedStall.V)
	}
}

// Without noise, background or anybody else, a request takes what cost.Path says.
func TestAloneIsTheCostModel(t *testing.T) {
	cfg := fleet.Busy(1, ladder())
	cfg.Noise, cfg.Background, cfg.Link.Shares, cfg.Workers, cfg.WorkerBlocks = fleet.Noise{}, fleet.Background{}, 0, 1, 0
	cfg.Interference, cfg.Grid, cfg.SpeedUp = 0, 0, 1
	blocks := make([]int64, 64)
	for i := range blocks {
		blocks[i] = int64(i)
	}
	requests := []fleet.Request{{PromptTokens: 64 * 512, Blocks: blocks}, {At: 10, PromptTokens: 64 * 512, Blocks: blocks}}
	_, out := run(t, cfg, requests, fetchAll(0))
	require.InDelta(t, 0.71797, out[0].Observed.TTFT.V, 1e-9, "the ladder's own point")
	bytes := 63 * 512 * 147_456.0
	want := cost.Path{TransferQueue: 2e-3, Transfer: bytes / 50e9, Restore: 1e-3 + bytes/200e9, Prefill: out[1].Observed.Prefill.V}
	require.InDelta(t, want.TTFT(), out[1].Observed.TTFT.V, 1e-9)
	require.InDelta(t, want.Transfer, out[1].Observed.Transfer.V, 1e-9)
	require.InDelta(t, want.ExposedStall(), out[1].Observed.ExposedStall.V, 1e-9)
}

func TestSnapshotIsWhereAnotherRunStarts(t *testing.T) {
	cfg, requests := fleet.Busy(1, ladder()), conversation(4_000)
	first, _ := run(t, cfg, requests[:2_000], fetchAll(0))
	cfg.Warm = first.Snapshot()
	again, err := fleet.New(cfg, nil, fetchAll(0))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(cfg.Warm, again.Snapshot()))
	warm, _ := run(t, cfg, requests[2_000:], fetchAll(0))
	cfg.Warm = nil
	cold, _ := run(t, cfg, requests[2_000:], fetchAll(0))
	require.Greater(t, warm.Load().Eligible, 1.05*cold.Load().Eligible)
}

func TestExplorationTakesWhatItLogs(t *testing.T) {
	e := fleet.Exploration{Share: 0.3, Salt: 9}
	taken := [4]float64{}
	const n = 40_000
	for i := range n {
		q := fleet.Query{Index: i, Candidates: make([]schema.Candidate, 4)}
		taken[e.Explore(&q, 2)]++
		require.InDelta(t, 0.7, q.Candidates[2].Propensity, 1e-12)
		require.InDelta(t, 0.1, q.Candidates[0].Propensity, 1e-12)
	}
	for i, want := range []float64{0.1, 0.1, 0.7, 0.1} {
		require.InDelta(t, want, taken[i]/n, 5*math.Sqrt(want*(1-want)/n))
	}
}
