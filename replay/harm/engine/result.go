package engine

import (
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvwhatif/kvwhatif/replay/live"
)

// Arm is all blocks of one kind. TTFT in seconds.
type Arm struct {
	Requests int     `json:"requests"`
	Mean     float64 `json:"mean_seconds"`
	P90      float64 `json:"p90_seconds"`
	P99      float64 `json:"p99_seconds"`
	Busy     float64 `json:"busy"`  // share of the workers' time that its requests computed
	Bytes    float64 `json:"bytes"` // that its requests fetched
}

// Beside is what came of the legs where they ran: of requests that a leg was on the
// worker of, and of the next few of their block, which may have waited behind those,
// against the same requests of the block without replays. Where a machine is loud it
// says more than the ratios, for it leaves out all blocks without a leg; but it takes
// for granted that a leg harms nobody later.
type Beside struct {
	Requests int     `json:"requests"`
	Met      int     `json:"met"`    // of them, that a leg was on the worker of
	Blocks   int     `json:"blocks"` // that they are of
	Ratio    float64 `json:"ratio"`  // of the mean of all requests, by these alone
	Upper    float64 `json:"upper"`  // one-sided 95 % bound, over blocks; 0: fewer than two blocks
}

// following is how many requests after one that met a leg count as beside it.
const following = 3

// Ratios are those of a set of pairs.
type Ratios struct {
	Mean      Ratio `json:"mean"`       // with over without
	P90       Ratio `json:"p90"`        // with over without
	NoiseMean Ratio `json:"noise_mean"` // blocks without, over the same requests without
	NoiseP90  Ratio `json:"noise_p90"`
}

// MaxWaited is the share of the time in which the servers could have run, but others
// had the CPUs, up to which a pair of blocks is undisturbed.
const MaxWaited = 0.5

// fewest is the pairs that ratios are made of.
const fewest = 6

// Undisturbed is the pairs in both blocks of which the servers had a CPU for at least
// half of the time in which they could have run.
type Undisturbed struct {
	Mean Ratio `json:"mean"` // with over without
	P90  Ratio `json:"p90"`  // with over without
	Met  int   `json:"met"`  // requests of them that a leg was on the worker of
}

// Result is what a measurement came to. Adjusted is the same ratios with less noise:
// adjusted for the time that the servers could have run, but others had the CPUs,
// which replays do not change; nil where that is not known, as Undisturbed is, or
// where those are too few. Where others took nearly all of a machine for a moment, a
// queue grew that no adjustment accounts for: go by Undisturbed then.
type Result struct {
	Without Arm `json:"without"`
	With    Arm `json:"with"`
	Ratios
	Adjusted    *Ratios          `json:"adjusted"`
	Undisturbed *Undisturbed     `json:"undisturbed"`
	Waited      float64          `json:"waited"` // share of the servers' time, median of the blocks; −1: not known
	Beside      Beside           `json:"beside"`
	Legs        int              `json:"legs"`      // that ran
	Attempts    int              `json:"attempts"`  // to run one, with those that production joined
	GPUShare    float64          `json:"gpu_share"` // of the GPU-seconds of the requests beside them
	ByteShare   float64          `json:"byte_share"`
	Drawn       int64            `json:"drawn"`
	Dropped     map[string]int64 `json:"dropped,omitempty"`
	Opened      int64            `json:"breaker_opened"`
	Ladder      []live.Rung      `json:"ladder"`
}

func (m *measurement) summarize() (Result, error) {
	st := m.runner.Stats()
	r := Result{Ladder: m.ladder, Legs: int(st.Executed), Drawn: st.Drawn, Dropped: st.Dropped, Opened: st.Breaker.Opened}
	pairs, without := arrange(m.done, m.Pairs)
	r.Ratios = ratios(pairs, without, false, m.Seed)
	if r.Waited = waited(m.done); r.Waited >= 0 {
		adjusted := ratios(pairs, without, true, m.Seed)
		r.Adjusted = &adjusted
		r.Undisturbed = undisturbedOf(m.done, pairs, m.Seed)
	}
	r.Beside = besideOf(m.done, pairs)
	var gpu, bytes, legGPU, legBytes float64
	for _, b := range m.done {
		r.Attempts += b.Legs
		if b.With {
			gpu, bytes = gpu+b.GPU, bytes+b.Bytes
			legGPU, legBytes = legGPU+b.LegCost.GPUSeconds, legBytes+b.LegCost.Bytes
		}
	}
	r.GPUShare, r.ByteShare = legGPU/gpu, legBytes/math.Max(1, bytes)
	r.Without, r.With = armOf(m.done, false, len(m.Fleet.Workers)), armOf(m.done, true, len(m.Fleet.Workers))
	return r, nil
}

func ratios(pairs, without []pair, adjusted bool, seed uint64) (out Ratios) {
	out.Mean, out.P90 = compare(pairs, adjusted, seed)
	out.NoiseMean, out.NoiseP90 = compare(without, adjusted, seed)
	return out
}

// waited is the median of the blocks' shares; −1 where some is not known.
func waited(blocks []Block) float64 {
	var shares []float64
	for _, b := range blocks {
		if b.Waited < 0 {
			return -1
		}
		shares = append(shares, b.Waited)
	}
	slices.Sort(shares)
	return shares[len(shares)/2]
}

// arrange gives the pairs (without, with), and pairs of the blocks without replays
// that had the same requests.
func arrange(blocks []Block, n int) (pairs, without []pair) {
	pairs = make([]pair, n)
	for _, b := range blocks {
		k := 0
		if b.With {
			k = 1
		}
		pairs[b.Pair].ttft[k], pairs[b.Pair].waited[k] = b.TTFT, b.Waited
	}
	for i := 0; i+1 < n; i += 2 {
		p, q := &pairs[i], &pairs[i+1]
		without = append(without, pair{[2][]float64{p.ttft[0], q.ttft[0]}, [2]float64{p.waited[0], q.waited[0]}})
	}
	return pairs, without
}

func undisturbedOf(blocks []Block, pairs []pair, seed uint64) *Undisturbed {
	var out Undisturbed
	var kept []pair
	for _, p := range pairs {
		if max(p.waited[0], p.waited[1]) <= MaxWaited {
			kept = append(kept, p)
		}
	}
	if len(kept) < fewest {
		return nil
	}
	for _, b := range blocks {
		if w := pairs[b.Pair].waited; b.With && max(w[0], w[1]) <= MaxWaited {
			for _, met := range b.Beside {
				if met {
					out.Met++
				}
			}
		}
	}
	out.Mean, out.P90 = compare(kept, false, seed)
	return &out
}

func besideOf(blocks []Block, pairs []pair) (out Beside) {
	total, extra := 0.0, []float64{}
	for _, b := range blocks {
		if !b.With {
			total += floats.Sum(b.TTFT)
			continue
		}
		sum, n, last := 0.0, 0, -following-1
		for i, met := range b.Beside {
			if met {
				last = i
				out.Met++
			}
			if i-last <= following {
				sum += b.TTFT[i] - pairs[b.Pair].ttft[0][i]
				n++
			}
		}
		if n > 0 {
			extra, out.Requests = append(extra, sum), out.Requests+n
		}
	}
	out.Blocks, out.Ratio = len(extra), 1+floats.Sum(extra)/total
	if n := float64(len(extra)); n > 1 {
		t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.95)
		out.Upper = out.Ratio + t*math.Sqrt(n*stat.Variance(extra, nil))/total
	}
	return out
}

func armOf(blocks []Block, with bool, workers int) (a Arm) {
	var all []float64
	gpu, wall, bytes := 0.0, 0.0, 0.0
	for _, b := range blocks {
		if b.With == with {
			all = append(all, b.TTFT...)
			gpu, wall, bytes = gpu+b.GPU, wall+b.Wall, bytes+b.Bytes
		}
	}
	slices.Sort(all)
	rank := func(q float64) float64 { return all[int(math.Ceil(q*float64(len(all))))-1] }
	return Arm{Requests: len(all), Mean: stat.Mean(all, nil), P90: rank(0.9), P99: rank(0.99), Busy: gpu / (wall * float64(workers)), Bytes: bytes}
}

func (r *Ratios) text() string {
	return r.Mean.line("mean") + r.P90.line("p90") + r.NoiseMean.line("noise of mean") + r.NoiseP90.line("noise of p90")
}

func (x Ratio) line(name string) string {
	return fmt.Sprintf("%-18s %8.4f   %.4f to %.4f %16.4f %8d\n", name, x.Ratio, x.Low, x.High, x.Upper, x.Pairs)
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	text := "               requests   mean TTFT         p90         p99   workers busy   fetched\n"
	for _, a := range []struct {
		name string
		Arm
	}{{"without", r.Without}, {"with replays", r.With}} {
		text += fmt.Sprintf("%-12s %10d %8.1f ms %8.1f ms %8.1f ms %12.0f %% %6.0f MB\n", a.name, a.Requests, 1e3*a.Mean, 1e3*a.P90, 1e3*a.P99, 100*a.Busy, a.Bytes/1e6)
	}
	text += "\n                      ratio   95 % interval      at most (95 %)   pairs\n"
	text += r.Ratios.text()
	if r.Adjusted != nil {
		text += fmt.Sprintf("adjusted for the CPU time that others took (the servers waited %.0f %% of their time, median):\n%s", 100*r.Waited, r.Adjusted.text())
	}
	if u := r.Undisturbed; u != nil {
		text += fmt.Sprintf("pairs in which they waited at most %.0f %% (%d requests met a leg):\n%s%s", 100*MaxWaited, u.Met, u.Mean.line("mean"), u.P90.line("p90"))
	}
	text += fmt.Sprintf("\n%d legs ran (%d drawn, %d attempts), at %.2f %% of GPU-seconds and %.2f %% of bytes; the breaker opened %d times.\n",
		r.Legs, r.Drawn, r.Attempts, 100*r.GPUShare, 100*r.ByteShare, r.Opened)
	b := r.Beside
	text += fmt.Sprintf("%d requests met a leg on their worker; with the next %d of their blocks they are %d of %d blocks, and by them alone the ratio of the mean is %.4f, at most %.4f.\n",
		b.Met, following, b.Requests, b.Blocks, b.Ratio, b.Upper)
	for _, g := range r.Ladder {
		text += fmt.Sprintf("%d tokens took %.0f ms to compute and %.1f ms to restore, alone.\n", g.Tokens, 1e3*g.Prefill, 1e3*g.Restore)
	}
	_, err := io.WriteString(w, text)
	return err
}
