package cost

import (
	"math"
	"sort"
)

// Externality is what a new transfer of bytes adds to the transfers that are on
// the link now, in seconds summed over them: Σ min(bytes, remaining(i))/B. It is
// exact for flows that share a link equally with γ = 0 and no limit of their own.
func Externality(bytes float64, remaining []float64, capacity float64) float64 {
	sum := 0.0
	for _, r := range remaining {
		sum += min(bytes, r)
	}
	return sum / capacity
}

// Drain runs flows of the given remaining bytes, all there at time 0 and with no
// arrivals, to their ends: finish[i] is when flow i is done, seconds.
func Drain(l Link, remaining []float64) (finish []float64) {
	order := make([]int, len(remaining))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return remaining[order[a]] < remaining[order[b]] })
	finish = make([]float64, len(remaining))
	now, served := 0.0, 0.0
	for k, i := range order {
		left := max(0, remaining[i]-served)
		now += left / l.FlowRate(float64(len(order)-k))
		served += left
		finish[i] = now
	}
	return finish
}

// FluidExternality is Externality for any link law: the difference of two fluid
// runs, with the new transfer and without it, summed over the flows that are
// there, in seconds.
func FluidExternality(l Link, bytes float64, remaining []float64) float64 {
	without := Drain(l, remaining)
	with := Drain(l, append(append(make([]float64, 0, len(remaining)+1), remaining...), bytes))
	sum := 0.0
	for i := range without {
		sum += with[i] - without[i]
	}
	return sum
}

// MeanExternality is FluidExternality where all that is known of the link is that
// flows flows are on it with remaining bytes each: n·min(S, r)·(1/rate(n+1) −
// 1/rate(n)), seconds, which at γ = 0 without a limit is n·min(S, r)/B. flows may
// be a fraction, for it is often a mean.
func MeanExternality(l Link, bytes, flows, remaining float64) float64 {
	if bytes <= 0 || flows <= 0 {
		return 0
	}
	n := max(1, flows)
	slower := 1/l.FlowRate(n+1) - 1/l.FlowRate(n)
	return flows * min(bytes, remaining) * slower
}

// ComputeExternality is what a recompute of c seconds adds to the requests of a
// worker that come at rate arrivals (1/s) and load its GPU to load (ρg, below 1),
// where the queue is gpuQueue seconds: λ·C·(Qg + C/2)/(1 − ρg). It is +Inf at a
// load of 1 or more.
func ComputeExternality(c, gpuQueue, arrivals, load float64) float64 {
	if load >= 1 {
		return math.Inf(1)
	}
	return arrivals * c * (gpuQueue + c/2) / (1 - load)
}

// DecodeExternality is what a recompute of c seconds adds to the decodes in
// flight: active × added step time × the weight of TPOT against TTFT.
func DecodeExternality(active, addedStep, weight float64) float64 {
	return active * addedStep * weight
}

// Kappa is κ = C·B/S: recompute time over the lone wire time of the same prefix.
func Kappa(recompute, capacity, bytes float64) float64 { return recompute * capacity / bytes }

// SelfishLoad is the load at which fetching for oneself settles, where
// 1 − ρ = S/(BC); never below 0.
func SelfishLoad(kappa float64) float64 { return max(0, 1-1/kappa) }

// BestLoad is ρ* = 1 − √(S/(BC)), the load that minimises the sum of delays;
// never below 0.
func BestLoad(kappa float64) float64 { return max(0, 1-math.Sqrt(1/kappa)) }

// Price is a link's published price.
type Price struct {
	Load      float64 `json:"load"`       // ρ*, 0 to below 1
	MeanBytes float64 `json:"mean_bytes"` // S̄, bytes
}

// Flows is c̄ = ρ*/(1 − ρ*), the mean number of flows at the price's load.
func (p Price) Flows() float64 { return p.Load / (1 - p.Load) }

// RelaxSeconds is Tr = S̄/(B(1 − ρ*)): how long what was heard of a link stays
// news.
func (p Price) RelaxSeconds(capacity float64) float64 {
	return p.MeanBytes / (capacity * (1 - p.Load))
}

// View is what a coordinator knows of a link.
type View struct {
	Own          float64 // transfers of its own in flight
	Others       float64 // transfers of others, when last heard
	Age          float64 // since last heard, seconds
	Coordinators float64 // N, at least 1
}

// ExpectedFlows is ĉ = own + max(0, (N−1)/N·c̄ + e^(−age/Tr)(others − (N−1)/N·c̄)).
func (p Price) ExpectedFlows(v View, capacity float64) float64 {
	n := max(1, v.Coordinators)
	mean := (n - 1) / n * p.Flows()
	decay := 0.0
	if tr := p.RelaxSeconds(capacity); tr > 0 {
		decay = math.Exp(-v.Age / tr)
	}
	return v.Own + max(0, mean+decay*(v.Others-mean))
}

// Toll is what a fetch of bytes is charged for the delay of those who come
// later, given flows expected flows: S(1+ĉ)ρ*/(B(1−ρ*)), seconds.
func (p Price) Toll(bytes, flows, capacity float64) float64 {
	return bytes * (1 + flows) * p.Load / (capacity * (1 - p.Load))
}

// Admit is the priced rule: fetch if and only if
// max(Qg, S(1+ĉ)/B) + S(1+ĉ)ρ*/(B(1−ρ*)) < Qg + C + Egpu.
func (p Price) Admit(bytes, flows, capacity, gpuQueue, recompute, gpuExternality float64) bool {
	wire := bytes * (1 + flows) / capacity
	return max(gpuQueue, wire)+p.Toll(bytes, flows, capacity) < gpuQueue+recompute+gpuExternality
}

// Demand is one eligible fetch in a window of demand, fetched or not.
type Demand struct {
	Bytes          float64 // S
	Recompute      float64 // C, seconds
	GPUExternality float64 // Egpu, seconds
}

// MaxPriceLoad bounds ρ*: at a load of 1 the number of flows and the toll have no
// end, and one fetch of boundless worth would take the link there.
const MaxPriceLoad = 0.99

// PriceOf finds ρ* from what could have been fetched in seconds seconds: from the
// highest κ(1 + Egpu/C) = (C + Egpu)·B/S down it admits demand until that equals
// 1/(1−ρ)². Occupancy does not enter, for stale occupancy makes coordinators
// swing together. Demand without bytes, and demand with a term that is not a
// number, does not count.
func PriceOf(demand []Demand, capacity, seconds float64) Price {
	if seconds <= 0 || capacity <= 0 {
		return Price{}
	}
	eligible := make([]worthyDemand, 0, len(demand))
	total := 0.0
	for _, d := range demand {
		worth := (d.Recompute + d.GPUExternality) * capacity / d.Bytes
		if d.Bytes > 0 && worth == worth {
			eligible = append(eligible, worthyDemand{worth: worth, bytes: d.Bytes})
			total += d.Bytes
		}
	}
	if len(eligible) == 0 {
		return Price{}
	}
	sort.SliceStable(eligible, func(a, b int) bool { return eligible[a].worth > eligible[b].worth })
	return Price{Load: admittedLoad(eligible, capacity*seconds), MeanBytes: total / float64(len(eligible))}
}

type worthyDemand struct{ worth, bytes float64 }

// admittedLoad admits demand, best first, to a link that could move room bytes.
func admittedLoad(eligible []worthyDemand, room float64) (load float64) {
	for _, d := range eligible {
		limit := min(MaxPriceLoad, BestLoad(d.worth))
		if load >= limit {
			break
		}
		load = min(limit, load+d.bytes/room)
	}
	return load
}
