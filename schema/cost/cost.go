// Package cost holds the formulas of the cost model: what a prefill, a transfer
// and a whole path cost, what a transfer costs the others, and when a fetch is
// admitted. It is pure. Durations are seconds, sizes are bytes and tokens, rates
// are bytes per second; every value is a float64, and a result is NaN where an
// input is.
package cost

import "math"

// Prefill is the law of computing tokens on one (model, GPU):
// C(n, m) = C0·⌈n/Chunk⌉ + C1·n + C2·n·(m + n/2).
type Prefill struct {
	C0    float64 `json:"c0"`    // seconds a chunk
	C1    float64 `json:"c1"`    // seconds a token
	C2    float64 `json:"c2"`    // seconds a token squared
	Chunk float64 `json:"chunk"` // tokens a chunk; 0 means one chunk whatever n
}

// Seconds is the time to compute n tokens after m that are there already; 0
// where n is 0 or less.
func (p Prefill) Seconds(n, m float64) float64 {
	if n <= 0 {
		return 0
	}
	return p.C0*p.chunks(n) + p.C1*n + p.C2*n*(m+n/2)
}

func (p Prefill) chunks(n float64) float64 {
	if p.Chunk <= 0 {
		return 1
	}
	return math.Ceil(n / p.Chunk)
}

// Link is the law of a shared link: with c flows each runs at
// min(B1, B/(c(1 + Gamma(c−1)))).
type Link struct {
	B     float64 `json:"b"`     // capacity, bytes/s
	B1    float64 `json:"b1"`    // the most that one flow reaches, bytes/s; 0 means no such limit
	Gamma float64 `json:"gamma"` // loss of efficiency a further flow
}

// FlowRate is the rate of each of flows concurrent flows, bytes/s; flows below 1
// count as 1.
func (l Link) FlowRate(flows float64) float64 {
	c := max(1, flows)
	rate := l.B / (c * (1 + l.Gamma*(c-1)))
	if l.B1 > 0 {
		rate = min(l.B1, rate)
	}
	return rate
}

// WireSeconds is the time of bytes on the wire while flows flows, this one
// included, share the link throughout.
func (l Link) WireSeconds(bytes, flows float64) float64 {
	if bytes <= 0 {
		return 0
	}
	return bytes / l.FlowRate(flows)
}

// Transfer is the law of one fetch over one (tier, link).
type Transfer struct {
	T0   float64 `json:"t0"`   // fixed cost of a fetch, seconds
	Cold float64 `json:"cold"` // first use of a pair, seconds
	Bend float64 `json:"bend"` // 0 for a constant rate; b where the rate grows as bytes^b
	Link Link    `json:"link"`
}

// BendBytes is the size at which Bend changes nothing: 1 GiB.
const BendBytes = 1 << 30

// WireBytes is what bytes count for on the wire: bytes·(bytes/BendBytes)^−Bend,
// so that small transfers, which do not reach the rate of large ones, count for
// more than they are.
func (t Transfer) WireBytes(bytes float64) float64 {
	if t.Bend == 0 || bytes <= 0 {
		return bytes
	}
	return bytes * math.Pow(bytes/BendBytes, -t.Bend)
}

// WireSeconds is the time of bytes on the wire, first byte to last, while flows
// flows, this one included, share the link throughout.
func (t Transfer) WireSeconds(bytes, flows float64) float64 {
	return t.Link.WireSeconds(t.WireBytes(bytes), flows)
}

// Seconds is t0 + the wire time of bytes among flows flows. Nothing to move
// costs nothing.
func (t Transfer) Seconds(bytes, flows float64) float64 {
	if bytes <= 0 {
		return 0
	}
	return t.T0 + t.WireSeconds(bytes, flows)
}

// Restore is the law of making transferred state usable: D = D0 + D1·bytes.
type Restore struct {
	D0 float64 `json:"d0"` // seconds
	D1 float64 `json:"d1"` // seconds a byte
}

// Seconds is the restoration time of bytes; 0 where there are none.
func (r Restore) Seconds(bytes float64) float64 {
	if bytes <= 0 {
		return 0
	}
	return r.D0 + r.D1*bytes
}

// Path is the terms of one candidate.
type Path struct {
	Hop           float64 // to another worker, seconds; 0 on the same
	GPUQueue      float64 // Qg, seconds
	TransferQueue float64 // t0 + cold + Qn, decision to first byte, seconds
	Transfer      float64 // on the wire, first byte to last, seconds
	Restore       float64 // D, seconds
	Prefill       float64 // C of every token that is computed, seconds
	Omega         float64 // share of min(Qg, X) that is lost where a slot is not held, 0 to 1
}

// Fetched is X, the time until the transferred state has arrived.
func (p Path) Fetched() float64 { return p.TransferQueue + p.Transfer }

// ExposedStall is how long a free GPU slot waits for the transfer, without
// layer streaming: max(0, X − Qg) + ω·min(Qg, X).
func (p Path) ExposedStall() float64 {
	x := p.Fetched()
	return max(0, x-p.GPUQueue) + p.Omega*min(p.GPUQueue, x)
}

// TTFT is hop + max(Qg, X) + ω·min(Qg, X) + D + C, which is the sum of the
// stages. With nothing to fetch it is hop + Qg + C.
func (p Path) TTFT() float64 {
	return p.Hop + p.GPUQueue + p.ExposedStall() + p.Restore + p.Prefill
}

// SeedInput is the seed's question: one prefix, one worker.
type SeedInput struct {
	Bytes         float64 // S
	Bandwidth     float64 // Beff, bytes/s
	GPUQueue      float64 // Qg, seconds
	TransferQueue float64 // Qn, seconds
	Restore       float64 // D, seconds
	Recompute     float64 // C of the prefix, seconds
}

// FetchSeconds is max(Qg, Qn + S/Beff) + D.
func (s SeedInput) FetchSeconds() float64 {
	return max(s.GPUQueue, s.TransferQueue+s.Bytes/s.Bandwidth) + s.Restore
}

// RecomputeSeconds is Qg + C.
func (s SeedInput) RecomputeSeconds() float64 { return s.GPUQueue + s.Recompute }

// FetchLoses is the seed rule: max(Qg, Qn + S/Beff) + D > Qg + C.
func (s SeedInput) FetchLoses() bool { return s.FetchSeconds() > s.RecomputeSeconds() }

// Layers is what a layer-streamed fetch comes to.
type Layers struct {
	TTFT  float64 // F of the last layer, seconds after the decision
	Stall float64 // Σ max(0, d(l) − F(l−1)), restoring included, seconds
}

// Stream runs the recurrence of layer streaming: layer l arrives at arrive[l],
// is restored at d(l) = max(d(l−1), arrive[l]) + restore[l] and computed at
// F(l) = max(F(l−1), d(l)) + compute[l], with F(0) = gpuQueue. The three slices
// have one element a layer.
func Stream(gpuQueue float64, arrive, restore, compute []float64) Layers {
	done, f, out := 0.0, gpuQueue, Layers{}
	for l := range arrive {
		done = max(done, arrive[l]) + restore[l]
		out.Stall += max(0, done-f)
		f = max(f, done) + compute[l]
	}
	out.TTFT = f
	return out
}
