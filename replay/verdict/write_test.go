package verdict

import (
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

type totals struct {
	N       uint64  `ch:"n"`
	Unknown uint64  `ch:"unknown"`
	Legs    uint64  `ch:"legs"`
	Planned uint64  `ch:"planned"`
	Phi     float64 `ch:"phi"`
	Rows    uint64  `ch:"rows"`
}

func stored(t *testing.T, conn driver.Conn) (out totals) {
	var rows []totals
	require.NoError(t, conn.Select(t.Context(), &rows, "SELECT sum(e.n) AS n, sum(e.unknown) AS unknown, sum(e.legs) AS legs, sum(e.planned) AS planned, sum(sum_phi) AS phi, countIf(e.n > 0) AS rows FROM estimates AS e FINAL"))
	return rows[0]
}

func TestWrittenTwiceItIsThereOnce(t *testing.T) { migratetest.Each(t, writtenTwiceItIsThereOnce) }

func writtenTwiceItIsThereOnce(t *testing.T, conn *clickhouse.Conn) {
	w := newWorld(t, 3000, 0.1)
	w.store(t, conn)
	r, err := Judge(t.Context(), conn, Scope{}, window, w.options())
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), conn, r))
	once := stored(t, conn)
	first, err := Latest(t.Context(), conn, Scope{})
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), conn, r))
	assert.Equal(t, once, stored(t, conn))
	assert.EqualValues(t, 3000, once.N)
	second, err := Latest(t.Context(), conn, Scope{})
	require.NoError(t, err)
	assert.Equal(t, first, second)

	// The whole again in parts, later and in other blocks: still once.
	for _, s := range []Scope{{Link: "slow"}, {Link: "fast"}} {
		opt := w.options()
		opt.Now, opt.Block = opt.Now.Add(time.Minute), 30*time.Second
		r, err := Judge(t.Context(), conn, s, window, opt)
		require.NoError(t, err)
		require.NoError(t, Write(t.Context(), conn, r))
	}
	again := stored(t, conn)
	assert.Equal(t, []uint64{once.N, once.Legs, once.Planned}, []uint64{again.N, again.Legs, again.Planned})
	assert.Less(t, again.Rows, once.Rows)
}

func TestALatePartMovesADecisionToAnotherSlice(t *testing.T) {
	w, conn := newWorld(t, 1000, 0), database(t)
	w.store(t, conn)
	r, err := Judge(t.Context(), conn, Scope{}, window, w.options())
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), conn, r))
	for _, p := range w.parts {
		p.Decision.Policy = "zealous" // max: the later name wins
	}
	storeRequests(t, conn, w.parts)
	opt := w.options()
	opt.Now = opt.Now.Add(time.Minute)
	r, err = Judge(t.Context(), conn, Scope{}, window, opt)
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), conn, r))
	got := stored(t, conn)
	assert.EqualValues(t, 1000, got.N+got.Unknown)
}

func TestLatestGivesWhatWasJudged(t *testing.T) {
	w, conn := newWorld(t, 3000, 0.1), database(t)
	w.store(t, conn)
	rows, err := Latest(t.Context(), conn, Scope{Link: "slow"})
	require.NoError(t, err)
	require.Empty(t, rows)
	r, err := Judge(t.Context(), conn, Scope{Link: "slow"}, window, w.options())
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), conn, r))
	rows, err = Latest(t.Context(), conn, Scope{Link: "slow"})
	require.NoError(t, err)
	require.Len(t, rows, 13, "two pairs: aipw for this window and the next, and four beside; and the regret")

	head := rows[0]
	assert.Equal(t, []string{"fetch", "recompute", "aipw", "window", "hurts"}, []string{head.PairFrom, head.PairTo, head.Estimator, head.Target, head.Verdict})
	assert.Equal(t, Hurting, head.State())
	assert.Equal(t, r.Headline.Pair.Theta, *head.Estimate)
	assert.Equal(t, r.Headline.Pair.Window.Lo, *head.Lo)
	assert.Equal(t, window.Until, head.Until.UTC())
	assert.EqualValues(t, 7, head.Revision)
	regret := rows[slices.IndexFunc(rows, func(r Row) bool { return r.Estimator == "regret" })]
	require.True(t, r.Report.Regret.Known, r.Report.Regret.Why)
	assert.Equal(t, []string{"", "", "window"}, []string{regret.PairFrom, regret.PairTo, regret.Target})
	assert.Equal(t, -r.Report.Regret.Value, *regret.Estimate)
	assert.Equal(t, -r.Report.Regret.Window.Hi, *regret.Lo)
	assert.Equal(t, -r.Report.Regret.Window.Lo, *regret.Hi)
	assert.Equal(t, Hurting, regret.State(), "on the slow link it fetched")
	assert.EqualValues(t, r.Report.Regret.N, regret.N)
	assert.Nil(t, rows[2].Lo, "estimators beside have no interval")
	assert.Equal(t, "unknown", rows[2].Verdict)

	_, err = Latest(t.Context(), conn, Scope{Service: "router"})
	assert.ErrorContains(t, err, "service")
	r.Scope.Service = "router"
	assert.ErrorContains(t, Write(t.Context(), conn, r), "service")
}

func TestRegretThatIsNotKnown(t *testing.T) {
	r := &Result{Report: estimate.Report{Regret: estimate.Regret{Why: "2 blocks of time"}}}
	row := r.regretRow()
	assert.Equal(t, []any{"unknown", "2 blocks of time", 1.0}, []any{row.Verdict, row.Reason, row.UnknownShare})
	assert.Nil(t, row.Estimate)
	assert.Nil(t, row.Lo)
}

func TestServiceScope(t *testing.T) {
	w, conn := newWorld(t, 100, 0), database(t)
	w.store(t, conn)
	for service, want := range map[string]int{"router": 100, "other": 0} {
		s, err := Read(t.Context(), conn, Scope{Service: service}, window, w.options())
		require.NoError(t, err)
		assert.Len(t, s.Input.Decisions, want)
	}
}

// TestSQLAgreesWithGo: any range of estimates has the mean and interval that Go
// would give it.
func TestSQLAgreesWithGo(t *testing.T) {
	w, conn := newWorld(t, 3000, 0.1), database(t)
	w.store(t, conn)
	r, err := Judge(t.Context(), conn, Scope{}, window, w.options())
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), conn, r))
	size := 1
	for name, c := range map[string]struct {
		of   Range
		keep func(estimate.Contribution) bool
	}{
		"pair": {Range{Window: window, From: schema.PathFetch, To: schema.PathRecompute}, func(c estimate.Contribution) bool { return c.From == schema.PathFetch }},
		"link": {Range{Window: window, From: schema.PathFetch, To: schema.PathRecompute, Link: "slow"}, func(c estimate.Contribution) bool {
			return c.From == schema.PathFetch && c.Slice.Link == "slow"
		}},
		"all, one size": {Range{Window: window, Size: &size, Policy: "greedy"}, func(c estimate.Contribution) bool { return c.Slice.Size == size }},
		"half of the time": {Range{Window: Window{start, start.Add(5 * time.Minute)}, From: schema.PathFetch}, func(c estimate.Contribution) bool {
			return c.From == schema.PathFetch && c.Block*10 < start.Add(5*time.Minute).Unix()
		}},
		"few blocks": {Range{Window: Window{start, start.Add(40 * time.Second)}}, func(c estimate.Contribution) bool { return c.Block*10 < start.Unix()+40 }},
		"few legs": {Range{Window: Window{start, start.Add(10 * time.Second)}, Link: "slow"}, func(c estimate.Contribution) bool {
			return c.Block*10 < start.Unix()+10 && c.Slice.Link == "slow"
		}},
		"nothing": {Range{Window: window, Link: "nowhere"}, func(estimate.Contribution) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []estimate.Contribution
			for _, x := range r.Report.Contributions {
				if c.keep(x) {
					rows = append(rows, x)
				}
			}
			want := Over(rows, 0.95)
			got, err := Query(t.Context(), conn, c.of, 0.95)
			require.NoError(t, err)
			assert.Equal(t, []any{want.Known, want.HasInterval(), want.N, want.Unknown, want.Legs, want.Blocks},
				[]any{got.Known, got.HasInterval(), got.N, got.Unknown, got.Legs, got.Blocks}, got.Why)
			assert.Equal(t, want.Why == "", got.Why == "")
			if want.Known {
				assert.InDelta(t, want.Value, got.Value, 1e-12)
			}
			if want.HasInterval() {
				assert.InEpsilon(t, want.SE, got.SE, 1e-9)
				assert.InDelta(t, want.Lo, got.Lo, 0.02*want.SE)
				assert.InDelta(t, want.Hi, got.Hi, 0.02*want.SE)
			}
		})
	}
	pair := r.Headline.Pair
	got, err := Query(t.Context(), conn, Range{Window: window, From: schema.PathFetch, To: schema.PathRecompute}, 0.95)
	require.NoError(t, err)
	assert.InDelta(t, pair.Theta, got.Value, 1e-12)
	assert.InEpsilon(t, pair.NextHour.SE, got.SE, 0.05)
}
