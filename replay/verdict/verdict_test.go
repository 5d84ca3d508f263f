package verdict

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

func TestJudgesAsThePureEstimatorDoes(t *testing.T) {
	migratetest.Each(t, judgesAsThePureEstimatorDoes)
}

func judgesAsThePureEstimatorDoes(t *testing.T, conn *clickhouse.Conn) {
	w := newWorld(t, 3000, 0.1)
	w.store(t, conn)
	r, err := Judge(t.Context(), conn, Scope{}, window, w.options())
	require.NoError(t, err)

	want := estimate.Estimate(w.input, estimate.Options{})
	require.Equal(t, window, r.Window)
	require.Equal(t, 10*time.Second, r.Block)
	require.Len(t, r.Findings, len(want.Pairs))
	for i, p := range want.Pairs {
		require.True(t, p.Known, p.Why)
		assert.InDelta(t, p.Theta, r.Findings[i].Pair.Theta, 1e-12)
		assert.InDelta(t, p.Window.Lo, r.Findings[i].Pair.Window.Lo, 1e-12)
		assert.InDelta(t, p.NextHour.Hi, r.Findings[i].Pair.NextHour.Hi, 1e-12)
		assert.Equal(t, []int{p.N, p.Legs, p.Controls}, []int{r.Findings[i].Pair.N, r.Findings[i].Pair.Legs, r.Findings[i].Pair.Controls})
		assert.InDelta(t, p.Completion, r.Findings[i].Pair.Completion, 1e-12)
	}
	assert.Equal(t, len(want.Contributions), len(r.Report.Contributions))
	assert.Equal(t, 3000, r.Decisions)
	assert.Equal(t, 3000, r.Predicted)
	assert.EqualValues(t, 7, r.Revision)
	assert.Equal(t, w.plan.ID(), r.Plan)
	assert.Empty(t, r.Notes)

	intended, executed := 0.0, 0
	for _, c := range r.Legs {
		intended, executed = intended+c.Intended, executed+c.Executed
	}
	assert.Equal(t, len(w.legs), executed)
	assert.InDelta(t, 0.9, float64(executed)/intended, 0.03)
}

func TestScopesByLinkFindTheTruth(t *testing.T) {
	w, conn := newWorld(t, 3000, 0.1), database(t)
	w.store(t, conn)
	scopes, err := Scopes(t.Context(), conn, window)
	require.NoError(t, err)
	require.Len(t, scopes, 2)
	for _, s := range scopes {
		assert.EqualValues(t, 1500, s.Moved+s.Eligible)
		assert.InDelta(t, 1200, float64(s.Moved), 100)
		r, err := Judge(t.Context(), conn, s.Scope, window, w.options())
		require.NoError(t, err)
		p := r.Headline.Pair
		require.True(t, p.Known, p.Why)
		assert.Equal(t, 1500, r.Decisions, "recomputes that could have used the link are in its scope")
		assert.EqualValues(t, s.Moved, p.N)
		assert.Less(t, math.Abs(p.Theta-w.truth[s.Link]), 4*p.Window.SE, s.Link)
		assert.Equal(t, map[string]State{"slow": Hurting, "fast": Helping}[s.Link], r.Headline.State, r.Headline.Why)
		assert.Equal(t, r.Headline.State, r.Headline.Next)
		assert.InDelta(t, map[string]float64{"slow": -0.008, "fast": -0.001}[s.Link], r.Headline.Others.Value, 1e-6)
	}
}

func TestBenefitsSayWhereItHelps(t *testing.T) {
	w, conn := newWorld(t, 3000, 0), database(t)
	w.store(t, conn)
	r, err := Judge(t.Context(), conn, Scope{}, window, w.options())
	require.NoError(t, err)
	rows := map[string]Benefit{}
	var names []string
	for _, b := range r.Benefits {
		rows[b.By+" "+b.Value] = b
		names = append(names, b.By+" "+b.Value)
	}
	assert.Equal(t, []string{
		"path fetch", "path recompute", "policy greedy", "model m", "tier cpu", "link fast", "link slow",
		"size ≤512", "size 513–2,048", "size 2,049–8,192",
	}, names)
	assert.Equal(t, 3000, rows["path fetch"].Decisions+rows["path recompute"].Decisions)
	for _, link := range []string{"fast", "slow"} {
		b := rows["link "+link]
		require.True(t, b.Measured.HasInterval(), b.Measured.Why)
		assert.InDelta(t, w.truth[link], b.Measured.Value, 4*b.Measured.SE)
		assert.Zero(t, b.Unmeasured)
		assert.True(t, b.Predicted.HasInterval())
		assert.Zero(t, b.NoAnswer)
	}
	assert.Greater(t, rows["link slow"].Hurt, rows["link fast"].Hurt)
	assert.True(t, rows["path recompute"].Measured.HasInterval(), rows["path recompute"].Measured.Why)
}

func TestRefusals(t *testing.T) {
	w, conn := newWorld(t, 1000, 0), database(t)
	storeRequests(t, conn, w.parts)
	judge := func(s Scope, win Window, opt Options) *Result {
		t.Helper()
		r, err := Judge(t.Context(), conn, s, win, opt)
		require.NoError(t, err)
		assert.Equal(t, Unknown, r.Headline.State)
		assert.Equal(t, 1.0, r.Headline.Unknown)
		assert.True(t, math.IsNaN(r.Headline.Pair.Theta))
		require.NoError(t, Write(t.Context(), conn, r), "an unknown verdict is written too")
		return r
	}
	assert.Contains(t, judge(Scope{}, window, w.options()).Headline.Why, "no replay of these requests came back")
	assert.Contains(t, judge(Scope{}, Window{start.Add(-time.Hour), start}, w.options()).Headline.Why, "no request with a decision")
	assert.Contains(t, judge(Scope{Link: "nowhere"}, window, w.options()).Headline.Why, "no request with a decision")
	assert.Contains(t, judge(Scope{}, window, Options{Now: start}).Headline.Why, "sampling plan")

	storeLegs(t, conn, "v9-other", w.legs)
	r := judge(Scope{}, window, w.options())
	assert.Contains(t, r.Headline.Why, "v9-other")
	assert.Contains(t, r.Notes[0], "legs left out: drawn by the sampling plan v9-other")

	late := w.options()
	late.Epochs[0].Since = start.Add(time.Hour)
	assert.Contains(t, judge(Scope{}, window, late).Headline.Why, "before replaying began")

	var rejected []leg
	for _, l := range w.legs {
		if l.Kind == schema.LegRejected {
			rejected = append(rejected, l)
		}
	}
	require.NoError(t, conn.Exec(t.Context(), "TRUNCATE TABLE replays"))
	storeLegs(t, conn, w.plan.ID(), rejected)
	assert.Contains(t, judge(Scope{}, window, w.options()).Headline.Why, "0 control legs of requests that chose recompute")
}

func TestArgumentsAreChecked(t *testing.T) {
	plan := testPlan(t)
	for name, c := range map[string]struct {
		scope Scope
		w     Window
		opt   Options
	}{
		"empty":                   {w: Window{start, start}},
		"no tier":                 {scope: Scope{Tier: "tape"}, w: window},
		"does not nest":           {w: window, opt: Options{Block: 7 * time.Second}},
		"needs its sampling plan": {w: window, opt: Options{Epochs: []Epoch{{}}}},
		"rising":                  {w: window, opt: Options{Epochs: []Epoch{{Plan: plan, Since: start}, {Plan: plan}}}},
	} {
		_, err := Read(t.Context(), nil, c.scope, c.w, c.opt)
		assert.ErrorContains(t, err, name)
	}
	w, conn := newWorld(t, 100, 0), database(t)
	w.store(t, conn)
	opt := w.options()
	opt.MaxDecisions = 99
	_, err := Judge(t.Context(), conn, Scope{}, window, opt)
	assert.ErrorContains(t, err, "more than 99 decisions")
}

func TestAnEpochBeginsInTheWindow(t *testing.T) {
	w, conn := newWorld(t, 3000, 0), database(t)
	w.store(t, conn)
	opt := w.options()
	opt.Epochs[0].Since = start.Add(5 * time.Minute)
	r, err := Judge(t.Context(), conn, Scope{}, window, opt)
	require.NoError(t, err)
	assert.Equal(t, []int{1500, 1500}, []int{r.Decisions, r.Undrawn})
	assert.InDelta(t, 0.5, r.Headline.Unknown, 1e-9)
	assert.NotEqual(t, Unknown, r.Headline.State, r.Headline.Why)
}

// TestABlindPlanGivesTheSame: the salt is not needed where the parameters are known.
func TestABlindPlanGivesTheSame(t *testing.T) {
	w, conn := newWorld(t, 3000, 0), database(t)
	w.store(t, conn)
	epoch, err := Blind(time.Time{}, w.plan.Params(), w.plan.ID())
	require.NoError(t, err)
	exact, err := Judge(t.Context(), conn, Scope{}, window, w.options())
	require.NoError(t, err)
	blind, err := Judge(t.Context(), conn, Scope{}, window, Options{Epochs: []Epoch{epoch}})
	require.NoError(t, err)
	require.True(t, blind.Headline.Pair.Known, blind.Headline.Why)
	assert.InDelta(t, exact.Headline.Pair.Theta, blind.Headline.Pair.Theta, exact.Headline.Pair.Window.SE)
	assert.InDelta(t, 1, blind.Headline.Pair.Completion, 0.1)
	_, err = Blind(time.Time{}, sample.Params{}, "v1")
	assert.ErrorContains(t, err, "v1")
}

// TestRowsThatSayLittle are counted, and never as good.
func TestRowsThatSayLittle(t *testing.T) {
	w, conn := newWorld(t, 3000, 0), database(t)
	w.store(t, conn)
	p, minute := *w.parts[0], start.Format(time.DateTime)
	insert := func(id schema.RowID, columns, values string) {
		t.Helper()
		require.NoError(t, conn.Exec(t.Context(), "INSERT INTO requests (minute, start, id, trace, spans, kind"+columns+") VALUES ('"+minute+"', '"+minute+"', ?, ?, [?], "+values+")",
			string(id[:]), string(p.Trace[:]), p.Span.Uint64()))
	}
	p.Trace[0]++
	insert(p.RowID(), "", "'contract'") // a decision that says nothing
	insert(schema.RowID{1}, ", path", "'contract', 'fetch'")
	insert(schema.RowID{2}, ", engine_ttft", "'engine', 1")
	p.Trace[0]++
	insert(p.RowID(), ", path, chosen, `candidate.path`, `candidate.ttft`", "'contract', 'fetch', 3, ['fetch'], [nan]") // its choice is none of its candidates

	r, err := Judge(t.Context(), conn, Scope{}, window, w.options())
	require.NoError(t, err)
	assert.Equal(t, []int{3002, 3000}, []int{r.Decisions, r.Predicted})
	assert.Contains(t, r.Notes[0], "1 decision left out: no span")
	assert.Equal(t, 1, r.Headline.Pair.Infeasible)
	assert.True(t, r.Headline.Pair.Known, r.Headline.Why)
	require.NoError(t, Write(t.Context(), conn, r))
	assert.EqualValues(t, 2, stored(t, conn).Unknown)
}

// TestAnyNameIsAScope: whoever sends spans chooses the names.
func TestAnyNameIsAScope(t *testing.T) {
	const odd = "a\nb\t\\t'{x:String}\x1b\x00é"
	w, conn := newWorld(t, 100, 0), database(t)
	for _, p := range w.parts[:40] {
		p.Decision.Policy, p.Decision.Link, p.Decision.Model = odd, odd, odd
	}
	w.store(t, conn)
	all, err := JudgeAll(t.Context(), conn, window, w.options())
	require.NoError(t, err)
	require.NotEmpty(t, all)
	r, err := Judge(t.Context(), conn, Scope{Policy: odd, Link: odd, Model: odd}, window, w.options())
	require.NoError(t, err)
	assert.Equal(t, 40, r.Decisions)
	_, err = Query(t.Context(), conn, Range{Window: window, Policy: odd, Link: odd, Model: odd}, 0.95)
	require.NoError(t, err)
}

func TestJudgeAll(t *testing.T) {
	w, conn := newWorld(t, 3000, 0), database(t)
	w.store(t, conn)
	all, err := JudgeAll(t.Context(), conn, window, w.options())
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.NoError(t, Write(t.Context(), conn, all[0]))
	before := stored(t, conn)
	for _, r := range all[1:] {
		require.NoError(t, WriteVerdicts(t.Context(), conn, r))
		rows, err := Latest(t.Context(), conn, r.Scope)
		require.NoError(t, err)
		require.Equal(t, r.Headline.State, rows[0].State())
	}
	assert.Equal(t, before, stored(t, conn))
	assert.Equal(t, "everything", all[0].Scope.String())
	assert.Contains(t, []string{"policy greedy, link slow", "policy greedy, link fast"}, all[1].Scope.String())
}
