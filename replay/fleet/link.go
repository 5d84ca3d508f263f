package fleet

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// flow is one transfer on the link. It ends when the link's service per unit of
// weight reaches end.
type flow struct {
	end    float64
	weight float64
	id     int32
}

// link shares capacity among flows in virtual time: v is the service that a flow
// of weight 1 has had since the link was last empty, so a flow of S bytes and
// weight w that comes at v ends at v + S/w, whatever comes and goes meanwhile.
// An event costs O(log flows).
type link struct {
	law        cost.Link
	background Background
	seed       uint64

	t, v    float64 // v is valid at t
	rate    float64 // dv/dt from t on
	change  float64 // when the background changes next
	weights float64
	flows   []flow // heap by end, then id
}

// capacity is the share of B that the background leaves at t, and until when.
// Each period holds one burst, so it is a function of time alone.
func (b Background) capacity(seed uint64, t float64) (share, until float64) {
	if b.Period == 0 || b.Duty == 0 || b.Depth == 0 {
		return 1, math.Inf(1)
	}
	k := math.Floor(t / b.Period)
	h := key(seed, uint64(int64(k)), 0, stageBackground)
	length := b.Period * b.Duty * (0.5 + uniform(h))
	from := k*b.Period + (b.Period-length)*uniform(mix(h, 2))
	switch {
	case t < from:
		return 1, from
	case t < from+length:
		return 1 - b.Depth*(0.5+uniform(mix(h, 3))), from + length
	default:
		return 1, (k + 1) * b.Period
	}
}

// next is when the link changes by itself; +Inf where nothing is on it.
func (l *link) next() float64 {
	if len(l.flows) == 0 {
		return math.Inf(1)
	}
	return math.Min(l.finish(), l.change)
}

func (l *link) finish() float64 { return l.t + (l.flows[0].end-l.v)/l.rate }

// add starts a flow at t, which is not before the link's last event.
func (l *link) add(t, bytes, weight float64, id int32) {
	if len(l.flows) == 0 {
		l.v, l.weights = 0, 0
	} else {
		l.v += l.rate * (t - l.t)
	}
	l.t = t
	l.weights += weight
	l.push(flow{end: l.v + bytes/weight, weight: weight, id: id})
	l.settle()
}

// step does what next announced: it ends the first flow and gives its id, or
// takes the background's change and gives −1.
func (l *link) step() int32 {
	if at := l.finish(); at <= l.change {
		done := l.pop()
		l.t, l.v = at, done.end
		l.weights -= done.weight
		l.settle()
		return done.id
	}
	l.v += l.rate * (l.change - l.t)
	l.t = l.change
	l.settle()
	return -1
}

func (l *link) settle() {
	if len(l.flows) == 0 {
		return
	}
	share, until := l.background.capacity(l.seed, l.t)
	l.change = until
	l.rate = share * l.law.B / (l.weights * (1 + l.law.Gamma*float64(len(l.flows)-1)))
	if l.law.B1 > 0 {
		l.rate = math.Min(l.law.B1, l.rate)
	}
}

func (a flow) before(b flow) bool { return a.end < b.end || (a.end == b.end && a.id < b.id) }

func (l *link) push(f flow) {
	l.flows = append(l.flows, f)
	h, i := l.flows, len(l.flows)-1
	for i > 0 && f.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = f
}

func (l *link) pop() flow {
	h := l.flows
	top, f := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	l.flows = h
	i := 0
	for c := 1; c < len(h); c = 2*i + 1 {
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(f) {
			break
		}
		h[i], i = h[c], c
	}
	if len(h) > 0 {
		h[i] = f
	}
	return top
}

// copyFrom makes l the same as o, reusing l's memory.
func (l *link) copyFrom(o *link) {
	flows := append(l.flows[:0], o.flows...)
	*l = *o
	l.flows = flows
}
