// Package budget keeps replaying from harming production: token buckets in
// GPU-seconds by worker and in bytes by link, a deadline, a gate that opens only
// on quiet workers, and counts of what was meant to run against what did. It is
// pure: the instant is an argument (Unix nanoseconds). It is not safe for
// concurrent use; its owner holds a lock.
package budget

import (
	"fmt"
	"math"
)

// Limits bound what legs may spend. A leg costs more than an average request,
// so the share is of cost, not of requests.
type Limits struct {
	Share       float64 // of production's own GPU-seconds and bytes, 0 to 1, earned as they are seen
	GPURate     float64 // further GPU-seconds a second and worker; 0 for none
	ByteRate    float64 // further bytes a second and link; 0 for none
	GPUBurst    float64 // most that a worker's bucket holds (with Pool: the one bucket), GPU-seconds
	ByteBurst   float64 // most that a link's bucket holds, bytes
	Pool        bool    // one GPU bucket for all workers: for fleets too small or runs too short to fund each
	MaxAgeNanos int64   // a leg that starts later than this after its decision is dropped; 0 for no deadline
}

// DefaultLimits are 1 % of production's cost, 5 GPU-seconds and 4 GiB at once,
// and a deadline of an hour.
func DefaultLimits() Limits {
	return Limits{Share: 0.01, GPUBurst: 5, ByteBurst: 4 << 30, MaxAgeNanos: 3600e9}
}

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	switch {
	case !(l.Share >= 0 && l.Share <= 1):
		return fmt.Errorf("replay budget: the share is %v, it must lie between 0 and 1", l.Share)
	case !(l.GPURate >= 0) || !(l.ByteRate >= 0):
		return fmt.Errorf("replay budget: the rates are %v and %v, they must not be negative", l.GPURate, l.ByteRate)
	case !(l.GPUBurst > 0) || !(l.ByteBurst > 0):
		return fmt.Errorf("replay budget: the bursts are %v s and %v bytes, they must be above 0", l.GPUBurst, l.ByteBurst)
	case l.MaxAgeNanos < 0:
		return fmt.Errorf("replay budget: the deadline is %d ns, it must not be negative", l.MaxAgeNanos)
	}
	return nil
}

// Charge is a cost: of a leg, of its preparation, or of production's request.
type Charge struct {
	Worker     string  `json:"worker,omitempty"`
	GPUSeconds float64 `json:"gpu_seconds"`
	Link       string  `json:"link,omitempty"` // "" where nothing is moved
	Bytes      float64 `json:"bytes"`          // moved over Link
}

// bucket holds tokens up to a burst; it may be in debt.
type bucket struct {
	tokens  float64
	at      int64 // Unix nanoseconds of the last refill
	changed bool  // since Changed was last asked
}

func (k *bucket) add(tokens, burst float64) {
	k.tokens, k.changed = math.Min(burst, k.tokens+tokens), true
}

// Ledger is the buckets of every worker and link.
type Ledger struct {
	limits  Limits
	workers map[string]*bucket
	links   map[string]*bucket
	earned  Charge // by production, in all
	spent   Charge // by legs, in all
}

// New makes a ledger with empty buckets: what has not been earned is not spent.
func New(l Limits) (*Ledger, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return &Ledger{limits: l, workers: map[string]*bucket{}, links: map[string]*bucket{}}, nil
}

// Earn credits the share of a production request's cost.
func (b *Ledger) Earn(now int64, c Charge) {
	b.earned.GPUSeconds += positive(c.GPUSeconds)
	b.earned.Bytes += positive(c.Bytes)
	w := b.worker(now, c.Worker)
	w.add(b.limits.Share*positive(c.GPUSeconds), b.limits.GPUBurst)
	if c.Link != "" {
		l := refill(b.links, c.Link, now, b.limits.ByteRate, b.limits.ByteBurst)
		l.add(b.limits.Share*positive(c.Bytes), b.limits.ByteBurst)
	}
}

// Short says which bucket a leg waits for.
type Short uint8

// What a leg may wait for.
const (
	Enough    Short = iota // nothing: it is charged
	ShortGPU               // its worker's GPU-seconds
	ShortLink              // its link's bytes
)

// Take charges a leg before it runs, or says what it must wait for: a bucket must
// hold the cost, or be full where the cost is above the burst. A large leg then
// puts its bucket into debt, and so is not left out for its size.
func (b *Ledger) Take(now int64, c Charge) Short {
	w := b.worker(now, c.Worker)
	if c.GPUSeconds > 0 && w.tokens < math.Min(c.GPUSeconds, b.limits.GPUBurst) {
		return ShortGPU
	}
	if c.Link != "" && c.Bytes > 0 {
		l := refill(b.links, c.Link, now, b.limits.ByteRate, b.limits.ByteBurst)
		if l.tokens < math.Min(c.Bytes, b.limits.ByteBurst) {
			return ShortLink
		}
	}
	b.Charge(now, c)
	return Enough
}

func (b *Ledger) worker(now int64, name string) *bucket {
	if b.limits.Pool {
		name = ""
	}
	return refill(b.workers, name, now, b.limits.GPURate, b.limits.GPUBurst)
}

// Fills tells whether buckets fill with time alone; else only production's cost
// fills them.
func (b *Ledger) Fills() bool { return b.limits.GPURate > 0 || b.limits.ByteRate > 0 }

// Pooled tells whether all workers share one bucket.
func (b *Ledger) Pooled() bool { return b.limits.Pool }

// Charge books a cost whether or not there is budget for it: preparation, and
// what a leg cost above its estimate (negative amounts give back). Debt delays
// later legs.
func (b *Ledger) Charge(now int64, c Charge) {
	w := b.worker(now, c.Worker)
	w.add(-finite(c.GPUSeconds), b.limits.GPUBurst)
	b.spent.GPUSeconds += finite(c.GPUSeconds)
	if c.Link != "" {
		l := refill(b.links, c.Link, now, b.limits.ByteRate, b.limits.ByteBurst)
		l.add(-finite(c.Bytes), b.limits.ByteBurst)
		b.spent.Bytes += finite(c.Bytes)
	}
}

// Totals gives production's cost and the legs', in GPU-seconds and bytes.
func (b *Ledger) Totals() (production, legs Charge) { return b.earned, b.spent }

// Expired tells whether a leg of a decision made at decided is past its deadline.
func (b *Ledger) Expired(decided, now int64) bool {
	return b.limits.MaxAgeNanos > 0 && now-decided > b.limits.MaxAgeNanos
}

// refill gives the bucket of name, topped up to now. A clock that goes back
// adds nothing.
func refill(set map[string]*bucket, name string, now int64, rate, burst float64) *bucket {
	k, ok := set[name]
	if !ok {
		k = &bucket{at: now}
		set[name] = k
	}
	if now > k.at {
		k.tokens = math.Min(burst, k.tokens+rate*float64(now-k.at)/1e9)
		k.at = now
	}
	return k
}

func positive(x float64) float64 { return math.Max(0, finite(x)) }

// finite is x, and 0 where x is not a number or infinite.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// Idle is the gate: legs start only where production leaves room.
type Idle struct {
	MaxGPUQueue float64 // seconds of wait on the worker; 0 for no limit
	MaxFlows    float64 // transfers on the link; 0 for no limit
}

// DefaultIdle lets legs start on workers whose queue is at most 50 ms, and on links
// with at most 8 transfers: on a link near its capacity one more transfer delays all
// that are on it, and a budget of 1 % of cost raised production's p99 there by some
// 4 % without that limit, and by some 1 % with it (package harm).
func DefaultIdle() Idle { return Idle{MaxGPUQueue: 0.05, MaxFlows: 8} }

// Open tells whether a leg may start at this load. NaN is "not known", and keeps
// a gate that has that limit shut.
func (g Idle) Open(gpuQueue, flows float64) bool {
	return (g.MaxGPUQueue <= 0 || gpuQueue <= g.MaxGPUQueue) && (g.MaxFlows <= 0 || flows <= g.MaxFlows)
}
