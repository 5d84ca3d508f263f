package evaluate

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Served is one request of a switchback: when it was decided, by which policy, and
// what came of it.
type Served struct {
	At      float64 // seconds since any common start
	Policy  string
	Outcome float64 // TTFT, seconds; NaN: not known
}

// Design is how policies were given to blocks of time.
type Design string

// The designs. In complete, any arrangement of as many blocks of A and of B was as
// likely; in pairs, each two consecutive blocks had one of each, in either order.
const (
	DesignComplete Design = "complete"
	DesignPairs    Design = "pairs"
)

// Switchback says how to analyse one. The zero value of a field that has a default
// means that.
type Switchback struct {
	A, B      string  // policies
	Block     float64 // seconds that a policy stays, above 0
	BurnIn    float64 // seconds after each switch that are left out; below Block
	Origin    float64 // where a block begins; blocks lie before and after it
	Design    Design  // complete
	Level     float64 // 0.95
	MinBlocks int     // of each policy; 4
	MinServed int     // requests of a block; 10
	Draws     int     // of assignments, where there are too many to go through; 20,000
	Seed      uint64  // of those
	CarryP    float64 // significance at which carry-over is said to be there; 0.01
}

func (s Switchback) withDefaults() Switchback {
	if s.Design == "" {
		s.Design = DesignComplete
	}
	for _, f := range []struct {
		v *float64
		d float64
	}{{&s.Level, 0.95}, {&s.CarryP, 0.01}} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	for _, f := range []struct {
		v *int
		d int
	}{{&s.MinBlocks, 4}, {&s.MinServed, 10}, {&s.Draws, 20_000}} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	return s
}

func (s Switchback) validate() error {
	switch {
	case s.A == "" || s.B == "" || s.A == s.B:
		return fmt.Errorf("switchback: give two different policies, not %q and %q", s.A, s.B)
	case !(s.Block > 0):
		return fmt.Errorf("switchback: a block of %v s: give how long a policy stays", s.Block)
	case !(s.BurnIn >= 0 && s.BurnIn < s.Block):
		return fmt.Errorf("switchback: a burn-in of %v s in blocks of %v s: give less than a block", s.BurnIn, s.Block)
	case s.Design != DesignComplete && s.Design != DesignPairs:
		return fmt.Errorf("switchback: no design %q: give complete or pairs", s.Design)
	}
	return nil
}

// BlockOfTime is what one block came to, after its burn-in.
type BlockOfTime struct {
	Index     int64 // from Origin
	Policy    string
	N         int
	Sum       float64 // of outcomes, seconds
	Early     float64 // mean outcome of its first half after the burn-in; NaN without requests
	Late      float64
	After     string // policy of the block before; "" where that is not known
	earlyN    int
	earlySum  float64
	intruders int
}

// Switched is the effect of B against A, as a switchback shows it. Seconds of TTFT
// a request, negative where B is faster.
type Switched struct {
	Known bool
	Why   string // why not, where Known is false

	A, B   float64  // mean outcome under each
	Effect Estimate // B − A, its interval by inverting the randomisation test
	ByT    Estimate // the same with Student's interval over blocks
	P      float64  // of "no request's outcome depends on the policy", two-sided
	Exact  bool     // every assignment was gone through
	Draws  int      // assignments behind P

	N               int // requests used
	BurntIn         int // left out after a switch
	Other           int // of other policies, or without an outcome
	Mixed           int // blocks left out: both policies in them after the burn-in
	Short           int // blocks left out: fewer than MinServed requests
	BlocksA         int
	BlocksB         int
	CarryOver       float64 // how much more (B) or less (A) a block's first half shows than its second, after the burn-in, seconds: 0 without carry-over
	CarryP          float64 // of "none"; NaN where it cannot be tested
	Early, Late     float64 // effect in the first and second halves
	Blocks          []BlockOfTime
	UnpairedDropped int // blocks left out by the design pairs
}

// Switch analyses a switchback. A wrong argument is an error; too few blocks, or
// carry-over, are a refusal.
func Switch(rows []Served, s Switchback) (Switched, error) {
	s = s.withDefaults()
	nan := math.NaN()
	out := Switched{A: nan, B: nan, Effect: unknown(), ByT: unknown(), P: nan, CarryOver: nan, CarryP: nan, Early: nan, Late: nan}
	if err := s.validate(); err != nil {
		return out, err
	}
	out.gather(rows, s)
	if s.Design == DesignPairs {
		out.pair()
	}
	for _, b := range out.Blocks {
		out.N += b.N
		if b.Policy == s.A {
			out.BlocksA++
		} else {
			out.BlocksB++
		}
	}
	if out.Why = out.tooFew(s); out.Why != "" {
		return out, nil
	}
	out.carryOver(s)
	if out.CarryP < s.CarryP {
		out.Why = fmt.Sprintf("a policy's effect is still changing after the burn-in (p %.2g; %.4g ms in the first halves of blocks, %.4g in the second): give a longer --burn-in, and longer blocks", out.CarryP, 1e3*out.Early, 1e3*out.Late)
		return out, nil
	}
	out.fill(s)
	return out, nil
}

// gather puts requests into blocks.
func (out *Switched) gather(rows []Served, s Switchback) {
	rows = slices.Clone(rows)
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].At < rows[j].At })
	policies, first := map[int64]string{}, int64(math.MaxInt64)
	votes := map[int64]int{} // of B less A after the burn-in
	index := func(at float64) (int64, float64) {
		k := math.Floor((at - s.Origin) / s.Block)
		return int64(k), at - s.Origin - k*s.Block
	}
	for _, r := range rows {
		if k, into := index(r.At); into >= s.BurnIn && (r.Policy == s.A || r.Policy == s.B) {
			votes[k] += map[bool]int{true: 1, false: -1}[r.Policy == s.B]
			first = min(first, k)
		}
	}
	for k, v := range votes {
		policies[k] = s.A
		if v > 0 {
			policies[k] = s.B
		}
	}
	blocks := map[int64]*BlockOfTime{}
	for _, r := range rows {
		k, into := index(r.At)
		switch {
		case math.IsNaN(r.Outcome) || math.IsInf(r.Outcome, 0) || (r.Policy != s.A && r.Policy != s.B):
			out.Other++
		case into < s.BurnIn && policies[k-1] != policies[k]:
			out.BurntIn++
		default:
			if blocks[k] == nil {
				blocks[k] = &BlockOfTime{Index: k, Policy: policies[k], After: policies[k-1]}
			}
			blocks[k].add(r, into-s.BurnIn < (s.Block-s.BurnIn)/2)
		}
	}
	for _, b := range blocks {
		switch {
		case b.intruders > 0:
			out.Mixed++
		case b.N < s.MinServed:
			out.Short++
		default:
			b.Early, b.Late = b.earlySum/float64(b.earlyN), (b.Sum-b.earlySum)/float64(b.N-b.earlyN)
			out.Blocks = append(out.Blocks, *b)
		}
	}
	slices.SortFunc(out.Blocks, func(a, b BlockOfTime) int { return int(a.Index - b.Index) })
}

func (b *BlockOfTime) add(r Served, early bool) {
	if r.Policy != b.Policy {
		b.intruders++
		return
	}
	b.N++
	b.Sum += r.Outcome
	if early {
		b.earlyN++
		b.earlySum += r.Outcome
	}
}

// pair keeps pairs of consecutive blocks with one of each policy, pairs beginning at
// an even index.
func (out *Switched) pair() {
	var kept []BlockOfTime
	for i := 0; i < len(out.Blocks); i++ {
		b := out.Blocks[i]
		if i+1 < len(out.Blocks) && b.Index%2 == 0 && out.Blocks[i+1].Index == b.Index+1 && out.Blocks[i+1].Policy != b.Policy {
			kept = append(kept, b, out.Blocks[i+1])
			i++
			continue
		}
		out.UnpairedDropped++
	}
	out.Blocks = kept
}

// maxMixed is the share of blocks with both policies beyond which the blocks are not
// those of the switches.
const maxMixed = 0.2

func (out *Switched) tooFew(s Switchback) string {
	all := out.Mixed + out.Short + len(out.Blocks)
	if float64(out.Mixed) > maxMixed*float64(all) {
		return fmt.Sprintf("%d of %d blocks had both policies after the burn-in: see that --block and --origin are those of the switches", out.Mixed, all)
	}
	if min(out.BlocksA, out.BlocksB) >= s.MinBlocks {
		return ""
	}
	why := fmt.Sprintf("%d blocks under %s and %d under %s, %d of each needed", out.BlocksA, s.A, out.BlocksB, s.B, s.MinBlocks)
	if out.Short > 0 {
		why += fmt.Sprintf("; %d blocks had fewer than %d requests", out.Short, s.MinServed)
	}
	return why + ": wait, or give a longer window"
}

func (out *Switched) fill(s Switchback) {
	x := newArrangement(out.Blocks, s)
	out.A, out.B = x.means()
	effect := out.B - out.A
	out.ByT = x.student(s.Level)
	r := x.randomise(s)
	out.P, out.Exact, out.Draws = r.p, r.exact, r.draws
	out.Effect = Estimate{effect, out.ByT.SE, r.lo, r.hi}
	if math.IsInf(r.lo, 0) || math.IsInf(r.hi, 0) {
		out.Why = fmt.Sprintf("%d blocks can be arranged in %d ways only, too few for an interval at %.3g %%: wait", len(out.Blocks), r.draws, 100*s.Level)
		out.Effect, out.ByT = unknown(), unknown()
		return
	}
	out.Known = true
}
