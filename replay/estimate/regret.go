package estimate

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Regret is E[Y] − V(d), seconds a request: what the choices cost against the
// best rule by size, load and path chosen that other blocks of time could teach.
// d takes, within such a cell, the path with the least shrunk prediction, so it is
// the same for all of a cell, and never the least of noisy single replays, which
// would find a gain where there is none. It may be negative: what was learnt did
// not hold. Only the request itself changes; queues and caches are as they were.
type Regret struct {
	Known bool
	Why   string // why not, where Known is false

	Value   float64
	Window  Interval // over blocks of time, the correction's doubt with it
	N       int      // requests that it is of
	Unknown int      // requests with another candidate, none of whose pairs is known
	Moved   float64  // share of the N that d sends another way
	Blocks  int
}

// UnknownShare is the share of the requests with a choice that Regret says nothing
// of; 1 where it is refused.
func (r Regret) UnknownShare() float64 {
	if !r.Known {
		return 1
	}
	return float64(r.Unknown) / float64(r.N+r.Unknown)
}

// folds is how many runs of blocks the window is cut into.
const folds = 5

// lesson is what legs and predictions of one cell say of moving from a to b.
type lesson struct{ n, predicted, weights, residuals, legs float64 }

type lessonKey struct {
	from, to schema.Path
	at       place
}

func (l *lesson) add(s *population, r *row) {
	l.n++
	l.predicted += r.model - r.request.Y
	if r.weight > 0 {
		l.weights += r.weight
		l.residuals += r.weight * s.residual(r)
		l.legs++
	}
}

// change is the mean change of TTFT: as predicted, with the mean error of the
// legs shrunk towards that of the pair.
func (l *lesson) change(pair *lesson) float64 {
	correction := pair.residuals / math.Max(pair.weights, 1e-300)
	if l.legs > 0 {
		own := l.legs / (l.legs + prior)
		correction = own*l.residuals/l.weights + (1-own)*correction
	}
	return l.predicted/l.n + correction
}

// regret judges the choices by the pairs that are known.
func (ix *index) regret(known []population) Regret {
	nan := math.NaN()
	out := Regret{Value: nan, Window: Interval{nan, nan, nan}, Moved: nan}
	moves := make([][]move, len(ix.requests))
	for k := range known {
		for i := range known[k].rows {
			at := known[k].rows[i].request.at
			moves[at] = append(moves[at], move{&known[k], &known[k].rows[i], k})
		}
	}
	for i, r := range ix.requests {
		if len(moves[i]) > 0 {
			out.N++
		} else if r.another() {
			out.Unknown++
		}
	}
	fold, blocks := ix.folds()
	out.Blocks = blocks
	switch {
	case out.N == 0:
		out.Why = "no ordered pair of paths is known: see why each is not"
	case float64(out.Unknown) > ix.opt.MaxUnknown*float64(out.N+out.Unknown):
		out.Why = fmt.Sprintf("nothing is known of %d of %d requests that had a choice", out.Unknown, out.N+out.Unknown)
	case blocks < max(folds, ix.opt.MinBlocks):
		out.Why = fmt.Sprintf("%d blocks of time, %d needed to learn on some and judge on others: wait", blocks, max(folds, ix.opt.MinBlocks))
	default:
		ix.judge(&out, known, moves, fold)
	}
	return out
}

// move is one request's way from its path to another.
type move struct {
	s    *population
	r    *row
	pair int // place of s among the known
}

// another says whether the request had a candidate of another path.
func (r *request) another() bool {
	for b := range NumPaths {
		if schema.Path(b) != r.Path && finite(r.Model[b]) {
			return true
		}
	}
	return false
}

// folds gives each request its fold: runs of blocks, in order of time.
func (ix *index) folds() (fold []int, blocks int) {
	fold = make([]int, len(ix.requests))
	for i, r := range ix.requests {
		if i == 0 || r.Block != ix.requests[i-1].Block {
			blocks++
		}
		fold[i] = blocks - 1
	}
	for i := range fold {
		fold[i] = fold[i] * folds / max(1, blocks)
	}
	return fold, blocks
}

func (ix *index) judge(out *Regret, known []population, moves [][]move, fold []int) {
	gain := make([]float64, len(moves))
	times := make([]float64, len(known))
	for k := range folds {
		cells, pairs := lessons(moves, fold, k)
		for i, of := range moves {
			if fold[i] != k || len(of) == 0 {
				continue
			}
			if best := choose(of, cells, pairs); best != nil {
				gain[i] = -best.s.phi(best.r)
				times[best.pair]++
			}
		}
	}
	n, moved, total := float64(out.N), 0.0, 0.0
	for _, g := range gain {
		total += g
	}
	shared := 0.0
	for k := range known {
		moved += times[k]
		shared += times[k] / n * math.Sqrt(known[k].delta.variance) // as if they erred together
	}
	out.Known, out.Value, out.Moved = true, total/n, moved/n
	sums := map[int64]float64{}
	for i, of := range moves {
		if len(of) > 0 {
			sums[ix.requests[i].Block] += gain[i] - out.Value
		}
	}
	b := float64(len(sums))
	out.Window = interval(out.Value, ix.opt.Level, part{sumSquares(sums) / (n * n) * b / (b - 1), b - 1}, part{shared * shared, b - 1})
}

// lessons is what all folds but one teach, by cell and by pair.
func lessons(moves [][]move, fold []int, without int) (cells, pairs map[lessonKey]*lesson) {
	cells, pairs = map[lessonKey]*lesson{}, map[lessonKey]*lesson{}
	for i, of := range moves {
		if fold[i] == without {
			continue
		}
		for _, m := range of {
			teach(cells, placeOf(m.r.request.Decision, 0), m)
			teach(pairs, place{}, m)
		}
	}
	return cells, pairs
}

func teach(book map[lessonKey]*lesson, at place, m move) {
	k := lessonKey{m.s.from, m.s.to, at}
	if book[k] == nil {
		book[k] = &lesson{}
	}
	book[k].add(m.s, m.r)
}

// choose is d: the move that its cell is taught to gain most by, nil to stay.
func choose(of []move, cells, pairs map[lessonKey]*lesson) *move {
	var best *move
	least := 0.0
	for i := range of {
		m := &of[i]
		pair := pairs[lessonKey{m.s.from, m.s.to, place{}}]
		if pair == nil {
			continue
		}
		cell := cells[lessonKey{m.s.from, m.s.to, placeOf(m.r.request.Decision, 0)}]
		if cell == nil {
			cell = pair
		}
		if c := cell.change(pair); c < least {
			best, least = m, c
		}
	}
	return best
}
