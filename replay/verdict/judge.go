package verdict

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// State is a verdict's word.
type State string

// The verdicts. Even: the interval lies within the margin that does not matter.
const (
	Helping State = "helping"
	Hurting State = "hurting"
	Even    State = "even"
	Unknown State = "unknown"
)

// Finding is what was found of one ordered pair. Durations are seconds, and
// positive where the choice helped.
type Finding struct {
	Pair estimate.Pair // its Why says more than the estimator could know

	State State  // of this window's decisions, by Pair.Window
	Why   string // always said
	Next  State  // of decisions to come, by Pair.NextHour

	Unknown float64 // share of the decisions that chose Pair.From of which nothing is said, 0 to 1
	Others  Mean    // on other requests, by the logged predictions: spared (+) or imposed (−) delay; N is decisions
}

// Completeness is how many legs of one kind were drawn and came back, in one
// size bucket.
type Completeness struct {
	Size     int // schema.SizeBucket; −1 not known
	Leg      schema.Leg
	Intended float64 // a sum of probabilities under a blind epoch
	Executed int
}

// Result is the judgement of one scope and window.
type Result struct {
	At     time.Time
	Scope  Scope
	Window Window // judged: whole blocks
	Block  time.Duration
	Level  float64 // of every interval

	Headline Finding   // fetched decisions against local recompute
	Findings []Finding // every ordered pair that some decision had candidates for, the headline's among them
	Benefits []Benefit // where it helps

	Decisions int // judged
	Predicted int // of them, with a predicted benefit
	Sampled   int // of them, of which a leg was drawn
	Legs      []Completeness
	Undrawn   int // decisions before the first plan, left out
	Plan      string
	Revision  int64    // newest of the coefficients behind the predictions
	Notes     []string // what a reader should know besides

	Report  estimate.Report // as the pure estimator gave it
	support map[contributionKey]*support
	even    float64
}

// Judge reads a scope and window and estimates every ordered pair. What can not
// be said is in the result, with its reason; an error is of the database or of
// the arguments.
func Judge(ctx context.Context, conn driver.Conn, s Scope, w Window, opt Options) (*Result, error) {
	opt = opt.withDefaults(w)
	in, err := Read(ctx, conn, s, w, opt)
	if err != nil {
		return nil, fmt.Errorf("judge %s: %w", s, err)
	}
	return in.judge(s, opt), nil
}

// JudgeAll judges everything, and then each policy and link of the window by
// itself where there is more than one.
func JudgeAll(ctx context.Context, conn driver.Conn, w Window, opt Options) ([]*Result, error) {
	opt = opt.withDefaults(w)
	all, err := Judge(ctx, conn, Scope{}, w, opt)
	if err != nil {
		return nil, err
	}
	out := []*Result{all}
	scopes, err := Scopes(ctx, conn, all.Window)
	if err != nil || len(scopes) < 2 {
		return out, err
	}
	for _, s := range scopes {
		r, err := Judge(ctx, conn, s.Scope, w, opt)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (s *Sample) judge(scope Scope, opt Options) *Result {
	out := &Result{
		At: opt.Now.UTC().Truncate(time.Millisecond), Scope: scope, Window: s.Window, Block: s.Block, Level: opt.Estimate.Level,
		Decisions: len(s.Input.Decisions), Undrawn: s.Undrawn, Plan: s.plans(), Report: estimate.Estimate(s.Input, opt.Estimate),
		even: opt.Even,
	}
	for _, p := range out.Report.Pairs {
		out.Findings = append(out.Findings, s.finding(p, opt.Even))
	}
	out.Headline = s.finding(out.Report.Verdict.Pair, opt.Even)
	for _, f := range s.facts {
		out.Revision = max(out.Revision, f.revision)
		if !math.IsNaN(f.benefit) {
			out.Predicted++
		}
	}
	out.Legs, out.Sampled = s.completeness()
	out.Benefits = s.benefits(out)
	out.support = s.support(out.Report.Pairs)
	out.Notes = s.notes(out)
	return out
}

// plans names the plans that were in force, the newest last.
func (s *Sample) plans() string {
	used := map[int]bool{}
	for _, f := range s.facts {
		used[f.epoch] = true
	}
	var names []string
	for i, e := range s.epochs {
		if used[i] {
			names = append(names, e.id())
		}
	}
	return strings.Join(names, ",")
}

func (s *Sample) finding(p estimate.Pair, even float64) Finding {
	f := Finding{Pair: p, State: Unknown, Next: Unknown, Unknown: p.UnknownShare(), Others: s.others(p)}
	if why := s.missing(p); !p.Known && why != "" {
		f.Pair.Why = why
	}
	if !p.Known {
		f.Why = f.Pair.Why
		return f
	}
	margin := even * p.MeanChosen
	f.State, f.Next = stateOf(p.Window, margin), stateOf(p.NextHour, margin)
	f.Why = fmt.Sprintf("benefit of %s against %s %.4g ms (%.4g to %.4g) over %d decisions, %d legs",
		p.From, p.To, 1e3*p.Theta, 1e3*p.Window.Lo, 1e3*p.Window.Hi, p.N, p.Legs)
	switch f.State {
	case Unknown:
		f.Why = "the interval covers 0: " + f.Why
	case Even:
		f.Why = fmt.Sprintf("less than %.2g ms either way: %s", 1e3*margin, f.Why)
	}
	if s.Undrawn > 0 {
		all := float64(s.Undrawn + len(s.Input.Decisions))
		f.Unknown = 1 - (1-f.Unknown)*float64(len(s.Input.Decisions))/all
	}
	return f
}

// missing says what is wrong with the window as a whole where that is why the
// estimator refused.
func (s *Sample) missing(p estimate.Pair) string {
	switch {
	case len(s.Input.Decisions) == 0 && s.Undrawn > 0:
		return fmt.Sprintf("all %d decisions of this window were made before replaying began: wait, or judge a later window", s.Undrawn)
	case len(s.Input.Decisions) == 0:
		return "no request with a decision in this window and scope: see that spans arrive, or widen the window"
	case len(s.epochs) == 0:
		return "the sampling plan of the replays was not given, and without it nobody knows which legs are missing"
	case !s.present(p.From):
		return fmt.Sprintf("no request chose %s in this window and scope", p.From)
	case len(s.Input.Legs) == 0 && len(s.StrayLegs) > 0:
		return fmt.Sprintf("all legs are of other sampling plans (%s): give the plan that drew them", strings.Join(s.strayPlans(), ", "))
	case len(s.Input.Legs) == 0:
		return "no replay of these requests came back: see that the replayer runs, has an executor and has budget left"
	}
	return ""
}

func (s *Sample) present(path schema.Path) bool {
	for i := range s.Input.Decisions {
		if s.Input.Decisions[i].Path == path {
			return true
		}
	}
	return false
}

func (s *Sample) strayPlans() []string {
	return slices.Sorted(maps.Keys(s.StrayLegs))
}

func stateOf(i estimate.Interval, margin float64) State {
	switch {
	case math.IsNaN(i.Lo) || math.IsNaN(i.Hi):
		return Unknown
	case i.Lo >= -margin && i.Hi <= margin:
		return Even
	case i.Lo > 0:
		return Helping
	case i.Hi < 0:
		return Hurting
	}
	return Unknown
}

// completeness counts legs drawn and back by size, and the decisions that any
// was drawn of.
func (s *Sample) completeness() (out []Completeness, sampled int) {
	size := make(map[schema.RowID]int, len(s.Input.Decisions))
	add := func(size int, leg schema.Leg, intended float64, executed int) {
		i := slices.IndexFunc(out, func(c Completeness) bool { return c.Size == size && c.Leg == leg })
		if i < 0 {
			i, out = len(out), append(out, Completeness{Size: size, Leg: leg})
		}
		out[i].Intended += intended
		out[i].Executed += executed
	}
	for i := range s.Input.Decisions {
		d := &s.Input.Decisions[i]
		size[d.ID] = d.Slice.Size
		for b, n := range d.Intended {
			if n > 0 {
				add(d.Slice.Size, legOf(d, schema.Path(b)), n, 0)
			}
		}
		if d.Intended != [estimate.NumPaths]float64{} {
			sampled++
		}
	}
	for _, l := range s.Input.Legs {
		if !math.IsNaN(l.Y) {
			add(size[l.Of], l.Kind, 0, 1)
		}
	}
	slices.SortFunc(out, func(a, b Completeness) int { return cmp.Or(a.Size-b.Size, int(a.Leg)-int(b.Leg)) })
	return out, sampled
}

func legOf(d *estimate.Decision, run schema.Path) schema.Leg {
	if run == d.Path {
		return schema.LegControl
	}
	return schema.LegRejected
}

// notes are what the numbers leave out.
func (s *Sample) notes(r *Result) (out []string) {
	say := func(n int, what, why string) {
		if n > 1 {
			what += "s"
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s left out: %s", n, what, why))
		}
	}
	say(s.Undrawn, "decision", "made before replaying began")
	say(s.Unread, "decision", "no span of the row is its anchor")
	for _, plan := range s.strayPlans() {
		say(s.StrayLegs[plan], "leg", "drawn by the sampling plan "+plan+", which was not given")
	}
	say(r.Report.UnusableLegs, "leg", "no TTFT, no prediction or no probability, or run on another path than its kind allows")
	say(r.Report.RepeatedLegs, "leg", "came a second time")
	return out
}
