package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/evaluate"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
	"github.com/kvwhatif/kvwhatif/schema"
)

// EvaluateOptions say which policy is valued, and on which requests.
type EvaluateOptions struct {
	Span
	PolicyFile                string
	Settle                    time.Duration // younger requests are left out where Until is zero; 0: as long as a replay may take
	Policy, Model, Tier, Link string        // scope
	Limit                     float64       // change of load above which single requests do not answer; 0: evaluate.DefaultFeedbackLimit
	Coefficients              string        // file of the simulated fleet's document; empty: the newest that is published, else the policy's
	Runs                      int           // of the simulator, of each policy; 0: 5
	Seed                      uint64        // of the simulator
}

// maxEvaluated bounds what is held in memory, some 2 KB a decision.
const maxEvaluated = 500_000

// Evaluate says what a policy that is not deployed would have done to TTFT.
func Evaluate(ctx context.Context, s *Settings, o EvaluateOptions) (*Evaluation, error) {
	p, err := readPolicy(o.PolicyFile)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	from, until, err := o.at(now, VerdictOptions{Settle: o.Settle}.settle(s.Replay))
	if err != nil {
		return nil, err
	}
	conn, s, err := openTables(ctx, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	e := &evaluation{settings: s, options: o, policy: p, out: &Evaluation{Policy: p.Name, Kind: p.Kind, Generated: now.UTC()}}
	if err := e.read(ctx, conn, verdict.Window{From: from, Until: until}, now); err != nil {
		return nil, err
	}
	return e.out, e.value(ctx)
}

// evaluation is an Evaluate under way.
type evaluation struct {
	settings *Settings
	options  EvaluateOptions
	policy   *evaluate.Policy
	document *schema.Document // of the fleet's laws; nil where there is none
	sample   *verdict.Sample
	decided  map[schema.RowID]*decided
	order    []schema.RowID // of decided, by time
	out      *Evaluation
}

func (e *evaluation) read(ctx context.Context, conn driver.Conn, w verdict.Window, now time.Time) error {
	opt := verdict.Options{Now: now, MaxDecisions: maxEvaluated}
	var err error
	if opt.Epochs, e.out.Notes, err = e.settings.epochs(ctx, conn); err != nil {
		return err
	}
	scope := verdict.Scope{Policy: e.options.Policy, Model: e.options.Model, Tier: e.options.Tier, Link: e.options.Link}
	if e.sample, err = verdict.Read(ctx, conn, scope, w, opt); err != nil {
		return err
	}
	e.out.From, e.out.Until, e.out.Scope = e.sample.Window.From, e.sample.Window.Until, scope.String()
	wanted := map[schema.RowID]bool{}
	for i := range e.sample.Input.Decisions {
		wanted[e.sample.Input.Decisions[i].ID] = true
	}
	if e.decided, err = readDecided(ctx, conn, e.sample.Window, func(id schema.RowID) bool { return wanted[id] }); err != nil {
		return err
	}
	for id := range e.decided {
		e.order = append(e.order, id)
	}
	slices.SortFunc(e.order, func(a, b schema.RowID) int {
		if d := e.decided[a].nanos - e.decided[b].nanos; d != 0 {
			return map[bool]int{true: 1, false: -1}[d > 0]
		}
		return slices.Compare(a[:], b[:])
	})
	if e.document, err = e.laws(ctx, conn); err != nil {
		return err
	}
	if e.sample.Undrawn > 0 {
		e.out.Notes = append(e.out.Notes, fmt.Sprintf("%d decisions left out: made before replaying began", e.sample.Undrawn))
	}
	return nil
}

// laws gives the document that the fleet's laws are taken from; nil where there is
// none.
func (e *evaluation) laws(ctx context.Context, conn driver.Conn) (*schema.Document, error) {
	if e.options.Coefficients != "" {
		return documentIn(e.options.Coefficients)
	}
	latest, err := publish.Latest(ctx, publish.NewClickHouse(conn))
	switch {
	case err == nil:
		return &latest.Document, nil
	case errors.Is(err, publish.ErrNotFound):
		return e.policy.Document, nil
	}
	return nil, err
}

// value asks every method, and says which one answers.
func (e *evaluation) value(ctx context.Context) error {
	to, paths := map[schema.RowID]schema.Path{}, make([]schema.Path, 0, len(e.order))
	for _, id := range e.order {
		path, ok := e.policy.Intend(&e.decided[id].decision)
		if !ok {
			path = schema.PathNone
			e.out.Undecided++
		}
		to[id] = path
		if !ok {
			path = e.decided[id].decision.Path // as it was, for loads
		}
		paths = append(paths, path)
	}
	e.out.Requests = len(e.order)
	e.feedback(paths)
	e.replays(to)
	if err := e.exploration(); err != nil {
		return err
	}
	if err := e.simulation(ctx); err != nil {
		return err
	}
	e.out.answer()
	return nil
}

func (e *evaluation) seconds() float64 { return e.out.Until.Sub(e.out.From).Seconds() }

func (e *evaluation) feedback(paths []schema.Path) {
	ds := make([]*schema.Decision, 0, len(e.order))
	for _, id := range e.order {
		ds = append(ds, &e.decided[id].decision)
	}
	capacity := map[string]float64{}
	if e.document != nil {
		for _, t := range e.document.Transfer {
			capacity[t.Link] = math.Max(capacity[t.Link], t.Law.Link.B)
		}
	}
	limit := e.options.Limit
	if limit == 0 {
		limit = evaluate.DefaultFeedbackLimit
	}
	e.out.Feedback = feedbackOf(evaluate.FeedbackOf(ds, paths, capacity, e.busySeconds(), len(e.workers()), limit))
}

// busySeconds is from the first decision to the last: a window that is longer than
// the traffic would thin its load.
func (e *evaluation) busySeconds() float64 {
	if len(e.order) < 2 {
		return e.seconds()
	}
	first, last := e.decided[e.order[0]].nanos, e.decided[e.order[len(e.order)-1]].nanos
	return math.Max(1e-3, float64(last-first)/1e9)
}

func (e *evaluation) workers() map[string]bool {
	out := map[string]bool{}
	for _, d := range e.decided {
		for i := range d.decision.Candidates {
			if w := d.decision.Candidates[i].Worker; w != "" {
				out[w] = true
			}
		}
	}
	return out
}

// replays values the policy by legs, whole and by slice.
func (e *evaluation) replays(to map[schema.RowID]schema.Path) {
	opt := estimate.Options{Level: 0.95}
	v := estimate.NewTarget(e.sample.Input, opt, to).Value(nil)
	e.out.Methods = append(e.out.Methods, byReplays(v))
	slices := e.slices()
	if !v.Known || len(slices) == 0 {
		return
	}
	opt.Level = 1 - 0.05/float64(len(slices)) // together at 95 %
	target := estimate.NewTarget(e.sample.Input, opt, to)
	for _, s := range slices {
		v := target.Value(func(d *estimate.Decision) bool { return s.of(d) == s.value })
		e.out.Slices = append(e.out.Slices, EvaluatedSlice{By: s.by, Value: s.value, EvaluatedBy: byReplays(v)})
	}
}

// exploration values the policy by logged propensities.
func (e *evaluation) exploration() error {
	var rows []evaluate.Logged
	explores := false
	for _, id := range e.order {
		d := e.decided[id]
		block := d.nanos / int64(e.sample.Block)
		if row, ok := evaluate.LoggedOf(&d.decision, e.policy, d.ttft, block); ok {
			rows = append(rows, row)
			explores = explores || evaluate.Explores(&d.decision)
		}
	}
	if !explores {
		e.out.Methods = append(e.out.Methods, refusedBy(MethodExploration, "no decision was left to chance: let the deployed policy explore, and log candidate.propensity"))
		return nil
	}
	w, err := evaluate.Weigh(rows, evaluate.Limits{})
	if err != nil {
		return fmt.Errorf("value by logged propensities: %w", err)
	}
	m := byExploration(w)
	if share := 1 - float64(len(rows))/float64(len(e.order)); m.Known && share > 0.2 {
		m = refusedBy(MethodExploration, fmt.Sprintf("%.0f %% of the requests have no propensities or no TTFT", 100*share))
	}
	e.out.Methods = append(e.out.Methods, m)
	return nil
}
