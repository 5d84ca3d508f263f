package budget

import (
	"fmt"
	"math"
	"slices"
)

// BreakerConfig says when production is taken to suffer from replays.
type BreakerConfig struct {
	Factor      float64 // of the baseline's p99 TTFT that production may reach beside legs; 0: no breaker
	WindowNanos int64   // of time that is looked at
	PauseNanos  int64   // before legs are tried again; doubled for each trial that fails in a row, up to 16 times
	MinBeside   int     // requests beside legs that a judgement needs
	MinBaseline int     // requests of one group away from legs that a baseline needs
	Level       float64 // chance of an opening, at each look, where legs do nothing at all
}

// DefaultBreaker opens at a p99 beyond 1.5 times its baseline, looks at five
// minutes, and pauses five.
func DefaultBreaker() BreakerConfig {
	return BreakerConfig{Factor: 1.5, WindowNanos: 300e9, PauseNanos: 300e9, MinBeside: 20, MinBaseline: 100, Level: 1e-4}
}

// Validate says which of the settings makes no sense.
func (c BreakerConfig) Validate() error {
	switch {
	case c.Factor == 0:
		return nil
	case !(c.Factor >= 1) || math.IsInf(c.Factor, 1):
		return fmt.Errorf("replay breaker: the factor is %v, set it to 1 or more, or to 0 for no breaker", c.Factor)
	case c.WindowNanos <= 0 || c.PauseNanos <= 0:
		return fmt.Errorf("replay breaker: the window is %d ns and the pause %d ns, both must be above 0", c.WindowNanos, c.PauseNanos)
	case c.MinBeside < 1 || c.MinBaseline < 1 || !(c.Level > 0 && c.Level < 1):
		return fmt.Errorf("replay breaker: at least %d and %d requests at level %v: counts must be above 0, the level between 0 and 1", c.MinBeside, c.MinBaseline, c.Level)
	}
	return nil
}

// Phase is what a breaker lets through.
type Phase uint8

// Phases of a breaker.
const (
	Closed Phase = iota // legs run
	Open                // none does
	Trial               // one at a time, to see
)

// String is the phase's name.
func (p Phase) String() string { return [...]string{"closed", "open", "trial"}[p] }

// Breaker opens where production's p99 TTFT is worse beside legs than away from
// them: requests during which a leg was on their worker or their link, against
// others of the same group (path and size) in the same window, or where those are
// too few, within twelve windows before. A rise of load alone slows both, and does
// not open it.
//
// What it can not tell apart: with legs on every worker all the time, a rise of
// load from one from replays; it opens then, and the pause gives the baseline that
// a trial is judged by. Where the idle gate starts legs on quiet workers only, the
// requests beside them were to be faster, and harm below that difference is not
// seen. What replays take from others over something that is not a worker or a
// named link is not seen either.
type Breaker struct {
	cfg     BreakerConfig
	phase   Phase
	since   int64 // instant of the last change of phase, Unix nanoseconds
	failed  int   // trials in a row
	seen    []Seen
	way     map[string]Span  // of legs under way, by id; End 0
	spans   map[place][]Span // of legs that ended
	looked  int64
	reading Reading
	opened  int64 // how often, in all
}

// Seen is a request of production.
type Seen struct {
	Start, End   int64 // Unix nanoseconds of the decision and the first token
	Worker, Link string
	Group        string  // requests of a group are comparable
	TTFT         float64 // seconds
}

// Span is a time that a leg was under way.
type Span struct {
	Worker, Link string
	Start, End   int64 // Unix nanoseconds
}

// Reading is what the last look found.
type Reading struct {
	Beside   int     // requests beside legs with a baseline
	Over     int     // of them, beyond the factor
	Expected float64 // of them, where the p99 lay at the factor exactly
	Chance   float64 // of so many or more, then
	P99      float64 // of requests beside legs, seconds; NaN where there are none
	Baseline float64 // of requests of the same groups away from legs, seconds; NaN where there are none
}

// Known says that there was enough to judge by.
func (r Reading) Known(c BreakerConfig) bool { return r.Beside >= c.MinBeside }

// Transition is a change of phase and its reason.
type Transition struct {
	From, To Phase
	Why      string
	Reading  Reading
}

// baselines is how many windows back a baseline may reach.
const baselines = 12

// maxSeen bounds the requests that a breaker holds; the oldest go first.
const maxSeen = 200_000

// NewBreaker makes a closed breaker.
func NewBreaker(c BreakerConfig) (*Breaker, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	nan := math.NaN()
	return &Breaker{cfg: c, way: map[string]Span{}, spans: map[place][]Span{}, reading: Reading{P99: nan, Baseline: nan, Chance: 1}}, nil
}

// Phase gives the phase, and the instant of its beginning (0: the start).
func (b *Breaker) Phase() (Phase, int64) { return b.phase, b.since }

// Reading is what the last look found.
func (b *Breaker) Reading() Reading { return b.reading }

// Opened is how often it opened.
func (b *Breaker) Opened() int64 { return b.opened }

// Allows tells whether a leg may start.
func (b *Breaker) Allows() bool { return b.phase == Closed || (b.phase == Trial && len(b.way) == 0) }

// Began says that a leg is under way.
func (b *Breaker) Began(id, worker, link string, now int64) {
	b.way[id] = Span{Worker: worker, Link: link, Start: now}
}

// Ended says that a leg is no longer under way, and tells whether it was.
func (b *Breaker) Ended(id string, now int64) bool {
	s, ok := b.way[id]
	if !ok {
		return false
	}
	delete(b.way, id)
	s.End = now
	b.Ran(s)
	return true
}

// Ran says when a leg was under way, afterwards.
func (b *Breaker) Ran(s Span) {
	for _, p := range placesOf(s.Worker, s.Link) {
		if p.name != "" {
			b.spans[p] = append(b.spans[p], s)
		}
	}
}

// place is a worker or a link.
type place struct {
	link bool
	name string
}

func placesOf(worker, link string) [2]place { return [2]place{{false, worker}, {true, link}} }

// Observe takes a request of production.
func (b *Breaker) Observe(s Seen) {
	if b.cfg.Factor == 0 || !(s.TTFT > 0) || math.IsInf(s.TTFT, 1) {
		return
	}
	if len(b.seen) >= maxSeen {
		b.seen = append(b.seen[:0], b.seen[maxSeen/10:]...)
	}
	b.seen = append(b.seen, s)
}

// Look judges at the instant now, and gives the change of phase if there is one.
func (b *Breaker) Look(now int64) (Transition, bool) {
	if b.cfg.Factor == 0 {
		return Transition{}, false
	}
	b.forget(now - baselines*b.cfg.WindowNanos)
	from := now - b.cfg.WindowNanos
	if b.phase != Closed {
		from = max(from, b.since)
	}
	b.reading, b.looked = b.read(now, from), now
	bad := b.reading.Known(b.cfg) && b.reading.Chance < b.cfg.Level
	switch {
	case b.phase == Closed && bad:
		return b.turn(now, Open, fmt.Sprintf("production's p99 TTFT beside replays is over %.3g times its baseline", b.cfg.Factor)), true
	case b.phase == Open && now-b.since >= b.pause():
		return b.turn(now, Trial, "the pause is over"), true
	case b.phase == Trial && bad:
		b.failed++
		return b.turn(now, Open, "production suffered from the trial too"), true
	case b.phase == Trial && b.reading.Known(b.cfg):
		b.failed = 0
		return b.turn(now, Closed, "production did not suffer from the trial"), true
	}
	return Transition{}, false
}

func (b *Breaker) pause() int64 { return b.cfg.PauseNanos << min(b.failed, 4) }

func (b *Breaker) turn(now int64, to Phase, why string) Transition {
	t := Transition{From: b.phase, To: to, Why: why, Reading: b.reading}
	b.phase, b.since = to, now
	if to == Open {
		b.opened++
	}
	return t
}

// forget drops what ended before an instant.
func (b *Breaker) forget(before int64) {
	b.seen = slices.DeleteFunc(b.seen, func(s Seen) bool { return s.End < before })
	for key, spans := range b.spans {
		spans = slices.DeleteFunc(spans, func(s Span) bool { return s.End < before })
		if b.spans[key] = spans; len(spans) == 0 {
			delete(b.spans, key)
		}
	}
}
