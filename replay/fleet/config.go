package fleet

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// BlockTokens is the size of a prefix block, tokens.
const BlockTokens = 512

// MaxWorkers is the largest fleet: who holds a block is one machine word.
const MaxWorkers = 64

// Config is one fleet. Busy and Calm give complete ones.
type Config struct {
	Seed   uint64 // of arrivals, draws and background; never of exploration, which has its own salt
	Policy string // written on each decision
	Model  string
	GPU    string

	Workers       int     // 1 to MaxWorkers
	WorkerBlocks  int     // KV blocks that a worker keeps; 0 keeps none
	StoreBlocks   int     // KV blocks that the shared store keeps; 0 means there is no store
	BytesPerToken float64 // KV size
	ChunkTokens   float64 // tokens of a prefill chunk: the grain at which a GPU changes requests
	Ladder        []Point // measured prefill from an empty context

	Link       Link
	Restore    cost.Restore
	Hop        float64 // seconds to hand a request to another worker
	Background Background
	Noise      Noise

	Coordinators int     // each decides for the requests hashed to it, at least 1
	Staleness    float64 // seconds between exchanges of transfers in flight; 0 means always exact
	Affinity     float64 // share of requests that go to their conversation's pair of workers, 0 to 1

	TPOT         float64 // seconds an output token
	Interference float64 // relative slowing of a prefill for each active decode
	DecodeShare  float64 // share of a prefill by which it holds up each active decode

	ReplayWeight float64 // share of a replay's transfer against a production transfer's 1
	ReplayYields bool    // a replay's prefill gives way to production at chunk boundaries, not only before it starts
	SpeedUp      float64 // arrivals come this many times as fast as the requests say
	Grid         float64 // spread each arrival over this many seconds of the requests' own time

	Warm *Snapshot // caches at the start; nil means empty
}

// Link is the shared link and the tier behind it. With flows of equal weight and
// no background its law is cost.Link's, exactly: each flow of weight w runs at
// w·min(B1, B/(W(1 + Gamma(c−1)))), W the sum of the weights and c their number.
type Link struct {
	Name   string
	Tier   schema.Tier // of the shared store
	Law    cost.Link
	T0     float64 // fixed cost of a fetch, seconds
	Shares float64 // σ of the lognormal weights of flows; 0 means equal shares
}

// Background is traffic of others on the link: one burst in each period, at a
// place, of a length and of a depth that the seed draws.
type Background struct {
	Period float64 // seconds; 0 means none
	Duty   float64 // mean share of the time that is burst, 0 to 0.5
	Depth  float64 // mean share of the capacity that a burst takes, 0 to 0.6
}

// Noise is the σ of the lognormal factors (mean 1) on each stage.
type Noise struct {
	Prefill float64
	Fixed   float64 // T0
	Restore float64
	Report  float64 // of the GPU queue that a worker reports
	Decode  float64
}

// Busy is the demo's congested fleet: 32 workers and a 50 GB/s link that the
// conversation trace, 25 times as fast, would load to about 0.9 if every prefix
// were fetched that a worker does not hold itself. At 20 times it is 0.72, and
// fetching still pays.
func Busy(seed uint64, ladder []Point) Config {
	return Config{
		Seed: seed, Policy: "fetch-all", Model: "Qwen3-8B", GPU: "H800 TP8",
		Workers: 32, WorkerBlocks: 4096, StoreBlocks: 400_000,
		BytesPerToken: 147_456, ChunkTokens: 2048, Ladder: ladder,
		Link:       Link{Name: "busy", Tier: schema.TierCPU, Law: cost.Link{B: 50e9}, T0: 2e-3, Shares: 0.1},
		Restore:    cost.Restore{D0: 1e-3, D1: 1 / 200e9},
		Hop:        1e-3,
		Background: Background{Period: 4, Duty: 0.2, Depth: 0.25},
		Noise:      Noise{Prefill: 0.03, Fixed: 0.1, Restore: 0.05, Report: 0.1, Decode: 0.1},

		Coordinators: 4, Staleness: 1,
		TPOT: 0.012, Interference: 0.003, DecodeShare: 0.3,
		ReplayWeight: 0.5, SpeedUp: 25, Grid: 3,
	}
}

// Calm is the same system at the requests' own pace: 2 workers on a link of the
// same capacity, loaded to about 0.03.
func Calm(seed uint64, ladder []Point) Config {
	c := Busy(seed, ladder)
	c.Link.Name = "calm"
	c.Workers, c.WorkerBlocks, c.SpeedUp = 2, 4096, 1
	return c
}

// validate says what to change in a Config that can not be run.
func (c *Config) validate() error {
	finite := func(name string, v, low, high float64) error {
		if !(v >= low && v <= high) { // NaN too
			return fmt.Errorf("fleet config: %s is %v, set it from %v to %v", name, v, low, high)
		}
		return nil
	}
	for _, f := range []struct {
		name         string
		v, low, high float64
	}{
		{"Workers", float64(c.Workers), 1, MaxWorkers},
		{"WorkerBlocks", float64(c.WorkerBlocks), 0, 1e8},
		{"StoreBlocks", float64(c.StoreBlocks), 0, 1e9},
		{"BytesPerToken", c.BytesPerToken, 1, 1e9},
		{"ChunkTokens", c.ChunkTokens, 1, 1e9},
		{"Link.Law.B", c.Link.Law.B, 1, 1e15},
		{"Link.Law.B1", c.Link.Law.B1, 0, 1e15},
		{"Link.Law.Gamma", c.Link.Law.Gamma, 0, 10},
		{"Link.T0", c.Link.T0, 0, 60},
		{"Link.Shares", c.Link.Shares, 0, 2},
		{"Hop", c.Hop, 0, 60},
		{"Restore.D0", c.Restore.D0, 0, 60},
		{"Restore.D1", c.Restore.D1, 0, 1},
		{"Background.Period", c.Background.Period, 0, 1e6},
		{"Background.Duty", c.Background.Duty, 0, 0.5},
		{"Background.Depth", c.Background.Depth, 0, 0.6},
		{"Noise.Prefill", c.Noise.Prefill, 0, 2},
		{"Noise.Fixed", c.Noise.Fixed, 0, 2},
		{"Noise.Restore", c.Noise.Restore, 0, 2},
		{"Noise.Report", c.Noise.Report, 0, 2},
		{"Noise.Decode", c.Noise.Decode, 0, 2},
		{"Coordinators", float64(c.Coordinators), 1, 1e6},
		{"Staleness", c.Staleness, 0, 1e6},
		{"Affinity", c.Affinity, 0, 1},
		{"TPOT", c.TPOT, 0, 60},
		{"Interference", c.Interference, 0, 10},
		{"DecodeShare", c.DecodeShare, 0, 10},
		{"ReplayWeight", c.ReplayWeight, 1e-3, 1},
		{"SpeedUp", c.SpeedUp, 1e-6, math.MaxFloat64},
		{"Grid", c.Grid, 0, 1e9},
	} {
		if err := finite(f.name, f.v, f.low, f.high); err != nil {
			return err
		}
	}
	return nil
}
