package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// The synthetic world: fetches share a link whose load changes from block to block,
// recomputes and routes wait in queues that are a tenth when they are replayed,
// replays are off by an amount of their path and share noise within a batch, and
// the model is off too. One path in three of those not chosen is a route.
const (
	worldSizes  = 3
	worldSlice  = 2000 // requests of a size
	worldBlocks = 40
	chooseOther = 0.3  // of requests that recompute or are routed, half each
	worldFails  = 0.1  // of legs never run
	controlRate = 0.6  // of those that recompute or are routed
	batchNoise  = 4e-3 // seconds
	runNoise    = 0.1  // relative, of a run of a request
)

var (
	worldBias = [estimate.NumPaths]float64{schema.PathRecompute: -0.03, schema.PathRoute: 0.02} // seconds
	worldOff  = [estimate.NumPaths]float64{schema.PathFetch: 1, schema.PathRecompute: 0.85, schema.PathRoute: 1.15}
	worldRate = [worldSizes]float64{0.15, 0.25, 0.35} // of decisions whose alternative is drawn
	worldPart = [estimate.NumPaths]float64{schema.PathRecompute: 2, schema.PathRoute: 1}
)

// fork is one request with what every path would have taken.
type fork struct {
	estimate.Decision
	y     [estimate.NumPaths]float64 // as it was, or would have been
	mean  [estimate.NumPaths]float64 // of that and of a replay at the same load
	queue [estimate.NumPaths]float64
}

// worldTruth is the mean of Y(to) − Y(fetch) of fetched requests, by to and size; the last
// size is all of them.
type worldTruth [estimate.NumPaths][worldSizes + 1]float64

func newWorld(seed uint64) (estimate.Input, worldTruth) {
	r := rand.New(rand.NewPCG(seed, 0x7472757468))
	var in estimate.Input
	var truth worldTruth
	var n [worldSizes + 1]float64
	total, weather, shared := worldSizes*worldSlice, 0.0, 0.0
	for i := range total {
		block := i * worldBlocks / total
		if i == 0 || block != (i-1)*worldBlocks/total {
			weather, shared = 6*r.Float64(), batchNoise*r.NormFloat64()
		}
		f := newFork(r, i, block, i%worldSizes, weather)
		f.legs(r, &in, shared)
		if f.Path != schema.PathFetch {
			continue
		}
		for _, at := range []int{f.Slice.Size, worldSizes} {
			n[at]++
			for b := range truth {
				truth[b][at] += f.y[b] - f.Y
			}
		}
	}
	for b := range truth {
		for at := range n {
			truth[b][at] /= n[at]
		}
	}
	return in, truth
}

func newFork(r *rand.Rand, i, block, size int, weather float64) *fork {
	f := &fork{}
	scale, load := float64(int(1)<<size), 1+weather*r.Float64()
	compute := 0.05 * scale * math.Exp(0.1*r.NormFloat64())
	f.queue[schema.PathRecompute], f.queue[schema.PathRoute] = 0.1*r.ExpFloat64(), 0.12*r.ExpFloat64()
	f.mean = [estimate.NumPaths]float64{
		schema.PathFetch:     0.02 * scale * load,
		schema.PathRecompute: f.queue[schema.PathRecompute] + compute,
		schema.PathRoute:     f.queue[schema.PathRoute] + 0.3*compute + 1e-3,
	}
	f.Block, f.Load, f.Path, f.Alternative = int64(block), int(load/3), schema.PathFetch, schema.PathRecompute
	f.Slice = estimate.Slice{Policy: "p", Size: size}
	f.Stratum = "size" + strconv.Itoa(size)
	for b := range f.Model {
		f.Model[b] = math.NaN()
		if f.mean[b] > 0 {
			f.Model[b], f.y[b] = worldOff[b]*f.mean[b], f.mean[b]*noise(r)
		}
	}
	if u := r.Float64(); u < chooseOther {
		f.Alternative, f.Path = schema.PathFetch, schema.PathRecompute
		if u < chooseOther/2 {
			f.Path = schema.PathRoute
		}
	}
	f.Y = f.y[f.Path]
	binary.BigEndian.PutUint64(f.ID[:8], r.Uint64())
	binary.BigEndian.PutUint64(f.ID[8:], uint64(i))
	return f
}

// legs draws and runs the legs of one request.
func (f *fork) legs(r *rand.Rand, in *estimate.Input, shared float64) {
	if f.Path != schema.PathFetch {
		if r.Float64() < controlRate {
			f.run(r, in, f.Path, schema.LegControl, controlRate, shared)
		}
	} else if rate := worldRate[f.Slice.Size]; r.Float64() < rate {
		all := worldPart[schema.PathRecompute] + worldPart[schema.PathRoute]
		b := schema.PathRecompute
		if r.Float64()*all >= worldPart[b] {
			b = schema.PathRoute
		}
		f.run(r, in, b, schema.LegRejected, rate*worldPart[b]/all, shared)
	}
	in.Decisions = append(in.Decisions, f.Decision)
}

func (f *fork) run(r *rand.Rand, in *estimate.Input, b schema.Path, kind schema.Leg, pi, shared float64) {
	f.Intended[b] = 1
	if r.Float64() < worldFails {
		return
	}
	in.Legs = append(in.Legs, estimate.Leg{
		Of: f.ID, Path: b, Kind: kind, Inclusion: pi, Batch: strconv.FormatInt(f.Block, 10),
		Y:             f.mean[b]*noise(r) - 0.9*f.queue[b] + worldBias[b] + shared,
		ModelDecision: f.mean[b], ModelReplay: f.mean[b] - 0.9*f.queue[b],
	})
}

// noise is lognormal of mean 1; a replay draws its own.
func noise(r *rand.Rand) float64 { return math.Exp(runNoise*r.NormFloat64() - runNoise*runNoise/2) }
