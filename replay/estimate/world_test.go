package estimate

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/kvwhatif/kvwhatif/schema"
)

// world is a fleet whose truth is known. Fetches share a link, so their time
// grows with a load that varies by block; recomputes wait in a GPU queue that is
// gone when they are replayed; replays are off by bias, and noisy, with noise
// that a batch shares.
type world struct {
	seed       uint64
	n          int
	blocks     int
	rate       float64 // of rejected legs
	controls   float64 // of control legs
	bias       float64 // δ of running a recompute as a replay, seconds
	biasBySize float64 // what a size bucket adds to it
	modelScale float64 // m_b is the truth times this
	fails      float64 // share of legs that never run
	batchNoise float64 // that legs of a batch share, seconds
	late       int     // last blocks, heavily loaded, of which no leg has run yet
	earlyOnly  bool    // the truth of the other blocks only
	heavy      bool    // residuals with no mean
	noChoice   bool    // nobody chose recompute
}

func (w world) rng() *rand.Rand { return rand.New(rand.NewPCG(w.seed, 7)) }

// draw makes the window and its truth, mean Y(recompute) − Y(fetch) over the
// fetched requests.
func (w world) draw() (Input, float64) {
	r := w.rng()
	var in Input
	var sum, n float64
	shared, weather := 0.0, 0.0 // of the block
	for i := range w.n {
		block := i * w.blocks / w.n
		if i == 0 || block != (i-1)*w.blocks/w.n {
			shared, weather = r.NormFloat64()*w.batchNoise, 6*r.Float64()
		}
		tail := block >= w.blocks-w.late
		if tail {
			weather = 20
		}
		d, recompute, queue := w.decision(r, i, block, weather)
		if d.Path == schema.PathFetch && !(tail && w.earlyOnly) {
			sum += recompute - d.Y
			n++
		}
		w.legs(r, &in, d, recompute, queue, shared)
	}
	return in, sum / n
}

func (w world) decision(r *rand.Rand, i, block int, weather float64) (*Decision, float64, float64) {
	size := r.IntN(4)
	load := 1 + weather*r.Float64()
	compute := 0.05 * float64(int(1)<<size) * math.Exp(0.1*r.NormFloat64())
	queue := 0.1 * r.ExpFloat64()
	recompute := queue + compute*math.Exp(0.05*r.NormFloat64())
	fetch := 0.02 * float64(int(1)<<size) * load * math.Exp(0.1*r.NormFloat64())
	d := &Decision{
		Block: int64(block), Path: schema.PathFetch, Alternative: schema.PathRecompute,
		Slice: Slice{Policy: "p", Size: size, Link: "l", Tier: "cpu"}, Load: int(load / 3), Y: fetch,
		Stratum: "s" + string(rune('0'+size)),
	}
	for p := range d.Model {
		d.Model[p] = math.NaN()
	}
	binary.BigEndian.PutUint64(d.ID[:8], r.Uint64())
	binary.BigEndian.PutUint64(d.ID[8:], uint64(i))
	d.Model[schema.PathFetch] = 0.02 * float64(int(1)<<size) * load
	d.Model[schema.PathRecompute] = w.modelScale * (queue + compute)
	if !w.noChoice && r.Float64() < 0.15 {
		d.Path, d.Alternative, d.Y = schema.PathRecompute, schema.PathFetch, recompute
	}
	return d, recompute, queue
}

func (w world) legs(r *rand.Rand, in *Input, d *Decision, recompute, queue, batch float64) {
	// A replay of a recompute: the queue is a tenth of what it was.
	ran := recompute - 0.9*queue + w.bias + w.biasBySize*float64(d.Slice.Size) + batch + 0.01*r.NormFloat64()
	if w.heavy {
		ran += 0.01 * math.Pow(r.Float64(), -2)
	}
	leg := Leg{
		Of: d.ID, Path: schema.PathRecompute, Kind: schema.LegRejected, Inclusion: w.rate, Y: ran,
		ModelDecision: queue + recompute, ModelReplay: 0.1*queue + recompute, Batch: strconv.FormatInt(d.Block, 10),
	}
	rate := w.rate
	if d.Path == schema.PathRecompute {
		leg.Kind, leg.Inclusion, rate = schema.LegControl, w.controls, w.controls
	}
	if r.Float64() < rate {
		d.Intended[schema.PathRecompute] = 1
		if r.Float64() >= w.fails && int(d.Block) < w.blocks-w.late {
			in.Legs = append(in.Legs, leg)
		}
	}
	in.Decisions = append(in.Decisions, *d)
}

// ordinary is a world in which everything needed is there.
func ordinary(seed uint64) world {
	return world{seed: seed, n: 2000, blocks: 20, rate: 0.1, controls: 0.4, bias: -0.03, modelScale: 0.85, fails: 0.1, batchNoise: 0.004}
}
