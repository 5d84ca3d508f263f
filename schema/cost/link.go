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
		sum += math.Min(bytes, r)
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
		left := math.Max(0, remaining[i]-served)
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
func SelfishLoad(kappa float64) float64 { return math.Max(0, 1-1/kappa) }

// BestLoad is ρ* = 1 − √(S/(BC)), the load that minimises the sum of delays;
// never below 0.
func BestLoad(kappa float64) float64 { return math.Max(0, 1-math.Sqrt(1/kappa)) }

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
	mean := (v.Coordinators - 1) / v.Coordinators * p.Flows()
	decay := 0.0
	if tr := p.RelaxSeconds(capacity); tr > 0 {
		decay = math.Exp(-v.Age / tr)
	}
	return v.Own + math.Max(0, mean+decay*(v.Others-mean))
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
	return math.Max(gpuQueue, wire)+p.Toll(bytes, flows, capacity) < gpuQueue+recompute+gpuExternality
}

// Demand is one eligible fetch in a window of demand, fetched or not.
type Demand struct {
	Bytes          float64 // S
	Recompute      float64 // C, seconds
	GPUExternality float64 // Egpu, seconds
}

// PriceOf finds ρ* from what could have been fetched in seconds seconds: from the
// highest κ(1 + Egpu/C) down it admits demand until κ(1 + Egpu/C) = 1/(1−ρ)².
// Occupancy does not enter, for stale occupancy makes coordinators swing together.
func PriceOf(demand []Demand, capacity, seconds float64) Price {
	if len(demand) == 0 || seconds <= 0 {
		return Price{}
	}
	worth := make([]float64, len(demand))
	order := make([]int, len(demand))
	total := 0.0
	for i, d := range demand {
		order[i], worth[i] = i, worthOf(d, capacity)
		total += d.Bytes
	}
	sort.SliceStable(order, func(a, b int) bool { return worth[order[a]] > worth[order[b]] })
	price := Price{MeanBytes: total / float64(len(demand))}
	for _, i := range order {
		limit := 1 - math.Sqrt(1/worth[i])
		if price.Load >= limit {
			break
		}
		price.Load = math.Min(limit, price.Load+demand[i].Bytes/(capacity*seconds))
	}
	return price
}

func worthOf(d Demand, capacity float64) float64 {
	k := Kappa(d.Recompute, capacity, d.Bytes)
	if d.Recompute > 0 {
		k *= 1 + d.GPUExternality/d.Recompute
	}
	return k
}
