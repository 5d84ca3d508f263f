package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Rung is one measurement of a ladder: what tokens cost from an empty context.
// Durations are seconds.
type Rung struct {
	Tokens  int
	Prefill float64
	Bytes   int64 // of their state
	Restore float64
}

// Crossing is the rate of a link, bytes/s, below which fetching the rung's state
// takes longer than computing it: S/(C − D).
func (r Rung) Crossing() float64 { return float64(r.Bytes) / (r.Prefill - r.Restore) }

// Ladder measures prefill, size and restoration for each number of tokens, on the
// first worker's replay slot, which is empty before and after. Each is the least of
// two: what else the machine does is not the engine's.
func (f *Fleet) Ladder(ctx context.Context, tokens []int) (out []Rung, err error) {
	w := f.workers[0]
	const file = "ladder.kv"
	defer func() {
		err = errors.Join(err, w.server.Erase(context.WithoutCancel(ctx), len(w.slots)))
		os.Remove(filepath.Join(w.server.SaveDir, file))
	}()
	for i, n := range tokens {
		best := Rung{Prefill: math.Inf(1), Restore: math.Inf(1)}
		for range 2 {
			r, err := f.rung(ctx, w, n, int64(i))
			if err != nil {
				return nil, fmt.Errorf("ladder at %d tokens: %w", n, err)
			}
			best = Rung{n, min(best.Prefill, r.Prefill), r.Bytes, min(best.Restore, r.Restore)}
		}
		out = append(out, best)
	}
	return out, nil
}

func (f *Fleet) rung(ctx context.Context, w *worker, n int, seed int64) (r Rung, err error) {
	slot, s := len(w.slots), w.server
	if err := s.Erase(ctx, slot); err != nil {
		return r, err
	}
	done, err := s.Complete(ctx, llama.Completion{Prompt: f.vocab.Prefix([]int64{-seed}, 0, n), Slot: slot})
	if err != nil {
		return r, err
	}
	saved, err := s.Save(ctx, slot, "ladder.kv")
	if err != nil {
		return r, err
	}
	begin := time.Now()
	if _, err = s.Restore(ctx, slot, "ladder.kv"); err != nil {
		return r, err
	}
	return Rung{Tokens: n, Prefill: done.First.Sub(done.Begun).Seconds(), Bytes: saved.Bytes, Restore: time.Since(begin).Seconds()}, nil
}

// batchTokens is the tokens that a server computes at once.
const batchTokens = 512

// Prior is a cost model by least squares of the ladder, weighted by 1/y, and the
// links' stated rates: what a coordinator predicts by before anything is fitted to
// its traffic. Its link is the first worker's; PredictBy knows each.
func (f *Fleet) Prior(ladder []Rung) fleet.Prior {
	p := fleet.Prior{Hop: 1e-4, MeanBytes: 4e6, Arrivals: 0.4, Load: 0.3}
	var rows, restores [][]float64
	for _, r := range ladder {
		n := float64(r.Tokens)
		rows = append(rows, []float64{math.Ceil(n/batchTokens) / r.Prefill, n / r.Prefill, n * n / 2 / r.Prefill})
		restores = append(restores, []float64{1 / r.Restore, float64(r.Bytes) / r.Restore})
	}
	c, d := nonNegative(rows), nonNegative(restores)
	p.Prefill = cost.Prefill{C0: c[0], C1: c[1], C2: c[2], Chunk: batchTokens}
	p.Restore = cost.Restore{D0: d[0], D1: d[1]}
	p.Transfer = cost.Transfer{T0: 5e-4, Link: cost.Link{B: f.workers[0].Rate}}
	return p
}

// nonNegative solves rows·x = 1 by least squares, leaving out columns whose
// coefficient would be negative, from the last.
func nonNegative(rows [][]float64) []float64 {
	out := make([]float64, len(rows[0]))
	use := make([]int, len(out))
	for i := range use {
		use[i] = i
	}
	for len(use) > 0 {
		a, ones := mat.NewDense(len(rows), len(use), nil), mat.NewVecDense(len(rows), nil)
		for i, row := range rows {
			ones.SetVec(i, 1)
			for j, k := range use {
				a.Set(i, j, row[k])
			}
		}
		var x mat.VecDense
		negative := -1
		if err := x.SolveVec(a, ones); err != nil {
			negative = len(use) - 1 // columns that depend on each other
		} else {
			for j := range use {
				if x.AtVec(j) < 0 {
					negative = j
				}
			}
		}
		if negative < 0 {
			for j, k := range use {
				out[k] = x.AtVec(j)
			}
			return out
		}
		use = append(use[:negative], use[negative+1:]...)
	}
	return out
}

// PredictBy predicts by a prior and the link that each candidate uses.
func (f *Fleet) PredictBy(prior fleet.Prior) fleet.Predictor {
	return func(q *fleet.Query) {
		for i := range f.workers {
			if f.workers[i].Link == q.Link {
				prior.Transfer.Link.B = f.workers[i].Rate
			}
		}
		prior.Predict(q)
	}
}
