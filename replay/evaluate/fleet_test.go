package evaluate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/publicdata"
	"github.com/kvwhatif/kvwhatif/replay/evaluate"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
)

// traffic is the public conversation trace on the congested fleet.
func traffic(t testing.TB, n int) ([]fleet.Request, fleet.Config) {
	trace, err := publicdata.Conversation()
	require.NoError(t, err)
	var requests []fleet.Request
	for _, r := range trace[:n] {
		requests = append(requests, fleet.Request{At: float64(r.Millis) / 1e3, PromptTokens: r.InputTokens, OutputTokens: r.OutputTokens, Blocks: r.Blocks})
	}
	rows, err := publicdata.Series("MCv")
	require.NoError(t, err)
	var ladder []fleet.Point
	for _, r := range rows {
		ladder = append(ladder, fleet.Point{Tokens: r.Tokens, Seconds: r.PrefillMeasured})
	}
	cfg := fleet.Busy(11, ladder)
	cfg.SpeedUp = 26
	return requests, cfg
}

// production runs a fleet to its end.
func production(t testing.TB, cfg fleet.Config, requests []fleet.Request, decide fleet.Decider) ([]fleet.Outcome, float64) {
	sim, err := fleet.New(cfg, requests, decide)
	require.NoError(t, err)
	out := sim.Advance(math.Inf(1)).Outcomes
	mean := 0.0
	for i := range out {
		mean += out[i].Observed.TTFT.V / float64(len(out))
	}
	t.Logf("%s: %d requests, mean TTFT %.3f s, link load %.2f, GPU load %.2f", cfg.Policy, len(out), mean, sim.Load().Offered, sim.Load().GPU)
	return out, mean
}

// fitted is what a calibration of that fleet comes to.
func fitted() *schema.Document {
	p, q := fleet.DefaultPrior(), schema.Quality{N: 1000, MaxTokens: 1e6, MaxBytes: 1e12, MaxConcurrent: 100}
	return &schema.Document{
		Revision: 3,
		Prefill:  []schema.PrefillFit{{Model: "Qwen3-8B", GPU: "H800 TP8", Law: p.Prefill, Quality: q}},
		Transfer: []schema.TransferFit{{Tier: "cpu", Link: "busy", Law: p.Transfer, Quality: q}},
		Restore:  []schema.RestoreFit{{Model: "Qwen3-8B", Tier: "cpu", Law: p.Restore, Quality: q}},
	}
}

func policy(t testing.TB, file string) *evaluate.Policy {
	p, err := evaluate.ParsePolicy([]byte(file))
	require.NoError(t, err)
	return p
}

func arrivalsOf(outcomes []fleet.Outcome) []evaluate.Arrival {
	var out []evaluate.Arrival
	for i := range outcomes {
		o := &outcomes[i]
		out = append(out, evaluate.Arrival{At: o.At, Decision: &o.Decision, TTFT: o.Observed.TTFT.V, Blocks: o.Decision.PrefixBlocks})
	}
	return out
}

// explored are outcomes of a policy that explores, as a policy that never fetches is
// valued by them: paths, with what was drawn within a path as drawn.
func explored(outcomes []fleet.Outcome) []evaluate.Logged {
	var out []evaluate.Logged
	for i := range outcomes {
		o := &outcomes[i]
		row, ok := evaluate.LoggedOf(&o.Decision, policyNever(), o.Observed.TTFT.V, int64(o.At/2))
		if ok {
			out = append(out, row)
		}
	}
	return out
}

func policyNever() *evaluate.Policy {
	p, _ := evaluate.ParsePolicy([]byte(`{"kind":"never"}`))
	return p
}

// TestOneRequestAtATimeIsNotThePolicy: on a congested link, what every request gains by
// recomputing alone is not what they gain by recomputing together; whole runs of the
// simulator, made of the log alone, come near, and the rule of loads says so before.
func TestOneRequestAtATimeIsNotThePolicy(t *testing.T) {
	requests, cfg := traffic(t, 5000)
	cfg.Policy = "fetch-all"
	log, logged := production(t, cfg, requests, fleet.FetchAll(fleet.DefaultPredictor(), fleet.Exploration{Share: 0.2, Salt: 5}))
	cfg.Policy = "never"
	_, never := production(t, cfg, requests, fleet.Never(fleet.DefaultPredictor(), fleet.Exploration{}))
	truth := never - logged

	weighted, err := evaluate.Weigh(explored(log), evaluate.Limits{})
	require.NoError(t, err)
	require.True(t, weighted.Known, weighted.Why)
	simulated, err := evaluate.Simulate(arrivalsOf(log), policyNever(), evaluate.Fleet{Document: fitted(), Link: "busy", Workers: cfg.Workers, Seed: 1})
	require.NoError(t, err)
	require.True(t, simulated.Known, simulated.Why)
	t.Logf("truth %+.3f s; one at a time %+.3f (%+.3f to %+.3f); simulated %+.3f (%+.3f to %+.3f), of logged %.3f against %.3f observed, cache %d, %.1f %% not possible",
		truth, weighted.Change.Value, weighted.Change.Lo, weighted.Change.Hi, simulated.Change.Value, simulated.Change.Lo, simulated.Change.Hi,
		simulated.Logged.Value, simulated.Observed, simulated.CacheBlocks, 100*simulated.NotPossible)
	assert.False(t, weighted.Change.Lo <= truth && truth <= weighted.Change.Hi, "request-level weighting does not cover the policy's effect")
	assert.Less(t, math.Abs(simulated.Change.Value-truth), math.Abs(weighted.Change.Value-truth))

	var ds []*schema.Decision
	var to []schema.Path
	for i := range log {
		path, ok := policyNever().Choose(&log[i].Decision)
		require.True(t, ok)
		ds, to = append(ds, &log[i].Decision), append(to, path)
	}
	f := evaluate.FeedbackOf(ds, to, map[string]float64{"busy": 50e9}, 5000/67., cfg.Workers, evaluate.DefaultFeedbackLimit)
	assert.True(t, f.Carries, f.Why)
}

// sessions makes traffic of the trace's shape of any length: conversations whose
// turns come back at a steady rate.
func sessions(seed uint64, seconds, rate float64) []fleet.Request {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []fleet.Request
	next := int64(1)
	for now := 0.0; now < seconds; now += r.ExpFloat64() / rate {
		var before []int64
		if len(out) > 500 && r.Float64() < 0.4 {
			before = out[len(out)-250-r.IntN(250)].Blocks
		}
		blocks := append([]int64(nil), before[:min(len(before), 200)]...)
		for range int64(500+7_000*math.Exp(r.NormFloat64())) / fleet.BlockTokens {
			blocks = append(blocks, next)
			next++
		}
		out = append(out, fleet.Request{At: now, PromptTokens: int64(len(blocks))*fleet.BlockTokens + 1, OutputTokens: 200, Blocks: blocks})
	}
	return out
}

// TestSwitchbackOnTheFleetCoversTheTruth: whole runs under one policy and the other are
// the truth; blocks of time of one run find it, with what the policies do to queues,
// where a block is long against the time in which queues settle.
func TestSwitchbackOnTheFleetCoversTheTruth(t *testing.T) {
	covered, near, bias := 0, 0, 0.0
	for seed := range uint64(switchbackSeeds) {
		_, cfg := traffic(t, 1)
		cfg.Seed, cfg.SpeedUp, cfg.Grid, cfg.Workers, cfg.WorkerBlocks = 100+seed, 1, 0, 16, 1024
		requests := sessions(seed, warm+18*block, 22)
		truth := meanFrom(t, cfg, requests, policyNever(), warm) - meanFrom(t, cfg, requests, policy(t, `{"kind":"always"}`), warm)
		got := alternate(t, cfg, requests, seed)
		require.True(t, got.Known, got.Why)
		t.Logf("seed %d: truth %+.3f s, switchback %+.3f (%+.3f to %+.3f), Student (%+.3f to %+.3f), %d+%d blocks, carry-over p %.2f",
			seed, truth, got.Effect.Value, got.Effect.Lo, got.Effect.Hi, got.ByT.Lo, got.ByT.Hi, got.BlocksA, got.BlocksB, got.CarryP)
		covered += covers(got.Effect, truth)
		near += covers(got.ByT, truth)
		bias += (got.Effect.Value - truth) / switchbackSeeds
	}
	t.Logf("covered %d and %d of %d, mean error %+.4f s", covered, near, switchbackSeeds, bias)
	assert.GreaterOrEqual(t, covered, switchbackSeeds-1-switchbackSeeds/10)
}

// Of the switchbacks on the fleet, seconds.
const (
	block  = 45.0
	burnIn = 15.0
	warm   = 60.0
)

// meanFrom is the mean TTFT of a whole run under a policy, of requests that arrive from
// an instant on.
func meanFrom(t *testing.T, cfg fleet.Config, requests []fleet.Request, p *evaluate.Policy, from float64) float64 {
	sim, err := fleet.New(cfg, requests, p.Decider(fleet.DefaultPredictor()))
	require.NoError(t, err)
	sum, n := 0.0, 0.0
	for _, o := range sim.Advance(math.Inf(1)).Outcomes {
		if o.At >= from {
			sum, n = sum+o.Observed.TTFT.V, n+1
		}
	}
	return sum / n
}

// alternate runs a fleet whose policy changes by a random arrangement of blocks.
func alternate(t *testing.T, cfg fleet.Config, requests []fleet.Request, seed uint64) evaluate.Switched {
	r := rand.New(rand.NewPCG(seed, 9))
	underB := make([]bool, 64)
	for i := range underB {
		underB[i] = i%2 == 1
	}
	r.Shuffle(18, func(i, j int) { underB[i], underB[j] = underB[j], underB[i] })
	always, never := policy(t, `{"kind":"always"}`).Decider(fleet.DefaultPredictor()), policyNever().Decider(fleet.DefaultPredictor())
	at := func(now float64) int { return max(0, int((now-warm)/block)) }
	sim, err := fleet.New(cfg, requests, func(q *fleet.Query) int {
		if underB[at(q.Now)] {
			return never(q)
		}
		return always(q)
	})
	require.NoError(t, err)
	var served []evaluate.Served
	for _, o := range sim.Advance(math.Inf(1)).Outcomes {
		if o.At >= warm {
			served = append(served, evaluate.Served{At: o.At, Policy: map[bool]string{true: "never", false: "always"}[underB[at(o.At)]], Outcome: o.Observed.TTFT.V})
		}
	}
	got, err := evaluate.Switch(served, evaluate.Switchback{A: "always", B: "never", Block: block, BurnIn: burnIn, Origin: warm, Draws: 2000})
	require.NoError(t, err)
	return got
}
