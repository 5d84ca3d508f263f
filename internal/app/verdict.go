package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
)

// VerdictOptions say what is judged. An empty scope judges everything, and then
// each policy and link by itself.
type VerdictOptions struct {
	Span
	Settle                             time.Duration // younger requests are left out where Until is zero; 0: as long as a replay may take
	Policy, Model, Tier, Link, Service string
	DryRun                             bool // judge, but write nothing into the tables
}

func (o VerdictOptions) scope() verdict.Scope {
	return verdict.Scope{Policy: o.Policy, Model: o.Model, Tier: o.Tier, Link: o.Link, Service: o.Service}
}

// legTakes is how long after its start a leg may need.
const legTakes = time.Minute

// settle is how old a request must be to be judged: until then its replays may
// still run.
func (o VerdictOptions) settle(s ReplaySettings) time.Duration {
	switch {
	case o.Settle > 0:
		return o.Settle
	case s.Deadline == 0: // none: legs run when there is budget
		return time.Duration(DefaultSettings().Replay.Deadline) + legTakes
	}
	return time.Duration(s.Deadline) + legTakes
}

// Verdict judges a scope and range of requests, and writes what it found into the
// tables.
func Verdict(ctx context.Context, s *Settings, o VerdictOptions) (*Answer, error) {
	now := time.Now()
	from, until, err := o.at(now, o.settle(s.Replay))
	if err != nil {
		return nil, err
	}
	conn, s, err := openTables(ctx, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	opt := verdict.Options{Now: now}
	var notes []string
	if opt.Epochs, notes, err = s.epochs(ctx, conn); err != nil {
		return nil, err
	}
	results, err := o.judge(ctx, conn, verdict.Window{From: from, Until: until}, opt)
	if err != nil {
		return nil, err
	}
	if o.Service != "" && !o.DryRun {
		notes = append(notes, "a verdict of one service is not kept in the tables")
	} else if !o.DryRun {
		if err := o.write(ctx, conn, results); err != nil {
			return nil, err
		}
	}
	return answerOf(results, notes), nil
}

func (o VerdictOptions) judge(ctx context.Context, conn driver.Conn, w verdict.Window, opt verdict.Options) ([]*verdict.Result, error) {
	if o.scope() == (verdict.Scope{}) {
		return verdict.JudgeAll(ctx, conn, w, opt)
	}
	r, err := verdict.Judge(ctx, conn, o.scope(), w, opt)
	if err != nil {
		return nil, err
	}
	return []*verdict.Result{r}, nil
}

// write keeps the sums of the whole only: those of a part, corrected by its own
// control legs alone, would take their place.
func (o VerdictOptions) write(ctx context.Context, conn driver.Conn, results []*verdict.Result) error {
	for _, r := range results {
		write := verdict.WriteVerdicts
		if r.Scope == (verdict.Scope{}) {
			write = verdict.Write
		}
		if err := write(ctx, conn, r); err != nil {
			return err
		}
	}
	return nil
}

// planSeen is a sampling plan that legs in the tables carry.
type planSeen struct {
	ID    string    `ch:"plan"`
	First time.Time `ch:"first"` // start of its first leg
}

// epochs are the sampling plans that requests were drawn by: those that the replayer
// kept, or else that of the settings, since its first leg ran. Without its salt, what was drawn is known as
// probabilities only.
func (s *Settings) epochs(ctx context.Context, conn driver.Conn) (out []verdict.Epoch, notes []string, err error) {
	var seen []planSeen
	err = conn.Select(ctx, &seen, "SELECT plan, min(start) AS first FROM replays GROUP BY plan ORDER BY first")
	if err != nil {
		return nil, nil, fmt.Errorf("list the sampling plans: %w", clickhouse.Explain(err))
	}
	salt, err := s.Replay.salt()
	if err != nil {
		return nil, nil, err
	}
	if salt == nil {
		return s.blindEpochs(ctx, seen)
	}
	plan, err := s.Replay.plan(salt)
	if err != nil {
		return nil, nil, err
	}
	if entries, err := s.plansKept(ctx); err != nil || len(entries) > 0 {
		if err != nil {
			return nil, nil, err
		}
		return epochsOf(entries, salt, seen)
	}
	e := verdict.Epoch{Plan: plan}
	if i := slices.IndexFunc(seen, func(p planSeen) bool { return p.ID == plan.ID() }); i >= 0 {
		e.Since = seen[i].First.UTC()
	}
	return []verdict.Epoch{e}, nil, nil
}

// blindEpochs takes the newest plan for that of the settings.
func (s *Settings) blindEpochs(ctx context.Context, seen []planSeen) ([]verdict.Epoch, []string, error) {
	if len(seen) == 0 {
		return nil, nil, nil
	}
	newest := seen[len(seen)-1]
	if entries, err := s.plansKept(ctx); err != nil || len(entries) > 0 {
		if err != nil {
			return nil, nil, err
		}
		out, notes, err := epochsOf(entries, make([]byte, 32), seen)
		return out, append(notes, "no replay salt was given, so which legs were drawn is known as probabilities only"), err
	}
	e, err := verdict.Blind(newest.First.UTC(), s.Replay.params(), newest.ID)
	if err != nil {
		return nil, nil, err
	}
	note := "no replay salt was given, so which legs were drawn is known as probabilities only; the rates are those of replay.rate and replay.control, taken to be the replayer's"
	return []verdict.Epoch{e}, []string{note}, nil
}

// answerOf puts results into a report's form. Benefits and coverage are those of
// the first, which is the whole.
func answerOf(results []*verdict.Result, notes []string) *Answer {
	whole := results[0]
	d := report.Data{Verdicts: verdictsOf(results), Benefits: benefitsOf(whole), Truths: truthsOf(results), Coverage: coverageOf(whole)}
	d.Coverage.Support, d.Coverage.Refusals = supportOf(results), refusalsOf(results)
	d.Measured = report.Measured{
		Version: Version, Command: "kvwhatif verdict", From: whole.Window.From, Until: whole.Window.Until, Generated: whole.At,
		Notes: append(notes, whole.Notes...),
	}
	if whole.Plan != "" {
		d.Measured.Notes = append(d.Measured.Notes, "sampling plan "+whole.Plan)
	}
	return &Answer{data: d, regrets: regretsOf(results)}
}

// headlines are the verdicts on fetched requests against recomputing, one a scope.
func (a *Answer) headlines() (out []*report.Verdict) {
	for i := range a.data.Verdicts {
		if v := &a.data.Verdicts[i]; v.Path == "fetch" && v.Alternative == "recompute" {
			out = append(out, v)
		}
	}
	return out
}

// Failing says which scope has one of these verdicts, and why; "" where none has.
func (a *Answer) Failing(states []string) string {
	for _, v := range a.headlines() {
		if slices.Contains(states, string(v.Shown())) {
			return fmt.Sprintf("%s: %s", v.Shown(), v.Say())
		}
	}
	return ""
}

// VerdictStates are the words of a verdict.
func VerdictStates() []string {
	return []string{string(report.Helping), string(report.Hurting), string(report.Even), string(report.Unknown)}
}

// Log writes the headlines, a line each.
func (a *Answer) Log(log *slog.Logger) {
	for _, v := range a.headlines() {
		args := []any{"state", string(v.Shown()), "scope", strings.TrimSpace(v.Scope()), "requests", v.Requests, "replays", v.Replays}
		if v.Own.HasInterval() {
			args = append(args, "benefit_seconds", v.Own.Value, "low_seconds", v.Own.Low, "high_seconds", v.Own.High, "level", v.Own.Level)
		}
		if why := v.Why(); why != "" {
			args = append(args, "why", why)
		}
		log.Info("verdict", args...)
	}
}
