package crash

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// findings are differences between the tables and the recount: how many of each
// kind, and an example.
type findings map[string]*finding

type finding struct {
	count   int
	example string
}

func (f findings) note(kind, format string, args ...any) {
	if f[kind] == nil {
		f[kind] = &finding{example: fmt.Sprintf(format, args...)}
	}
	f[kind].count++
}

func (f findings) has(kind string) int {
	if f[kind] == nil {
		return 0
	}
	return f[kind].count
}

// err is nil where nothing was found.
func (f findings) err() error {
	if len(f) == 0 {
		return nil
	}
	var lines []string
	for kind, x := range f {
		lines = append(lines, fmt.Sprintf("%d × %s, such as %s", x.count, kind, x.example))
	}
	slices.Sort(lines)
	return fmt.Errorf("the tables are not what was sent:\n  %s", strings.Join(lines, "\n  "))
}

// Kinds of finding.
const (
	lostRow    = "request lost"
	extraRow   = "request that nobody sent"
	doubledRow = "request doubled"
	wrongSpans = "request with other spans than were accepted for it"
	wrongRow   = "request with other values"
	wrongSlice = "slice unlike the recount"
	wrongWorst = "minute of worst unlike the recount"
	wrongMoves = "group of transfers unlike the recount"
	wrongLegs  = "replay unlike what was sent"
	wrongWait  = "waiting part unlike what has no request"
	wrongDead  = "dead letter unlike the poison"
)

// check compares the tables with what was accepted.
func (r *recount) check(ctx context.Context, conn *clickhouse.Conn) (findings, error) {
	f := findings{}
	for _, step := range []func(context.Context, *clickhouse.Conn, findings) error{
		r.checkRequests, r.checkSlices, r.checkWorst, r.checkTransfers, r.checkLegs, r.checkWaiting,
	} {
		if err := step(ctx, conn, f); err != nil {
			return f, err
		}
	}
	return f, nil
}

// each calls row for each row of a query.
func each(ctx context.Context, conn *clickhouse.Conn, query string, row func(scan func(...any) error) error) error {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return rows.Err()
}

func (r *recount) checkRequests(ctx context.Context, conn *clickhouse.Conn, f findings) error {
	seen := map[schema.RowID]bool{}
	err := each(ctx, conn, `SELECT id, arraySort(spans), length(contents), toString(kind), toFloat64(arraySum(mapValues(moved))), toFloat64(ifNull(ttft, -1)),
toFloat64(ifNull(engine_ttft, -1)), toString(if(model = '', engine_model, model)), toInt64(minute) FROM requests FINAL`, func(scan func(...any) error) error {
		var key, kind, model string
		var spans []uint64
		var contents uint64
		var moved, ttft, engine float64
		var minute int64
		if err := scan(&key, &spans, &contents, &kind, &moved, &ttft, &engine, &model, &minute); err != nil {
			return err
		}
		id := schema.RowID([]byte(key))
		w := r.rows[id]
		switch {
		case w == nil || w.contract == nil:
			f.note(extraRow, "%v of kind %s", id, kind)
			return nil
		case seen[id]:
			f.note(doubledRow, "request %d", w.n)
		case !slices.Equal(spans, w.spans):
			f.note(wrongSpans, "request %d: %x, not %x", w.n, spans, w.spans)
		case int(contents) != len(spans) || kind != "contract" || moved != w.moved || minute != w.minute() || model != w.key().Model ||
			ttft != w.contract.Observed.TTFT.Or(-1) || engine != w.engineTTFT():
			f.note(wrongRow, "request %d: %d contents of %d spans, %s, moved %v (%v), ttft %v, engine's %v, model %s", w.n, contents, len(spans), kind, moved, w.moved, ttft, engine, model)
		}
		seen[id] = true
		return nil
	})
	for id, w := range r.rows {
		if w.contract != nil && !seen[id] {
			f.note(lostRow, "request %d", w.n)
		}
	}
	return err
}

func (w *wantRow) engineTTFT() float64 {
	if w.engine == nil {
		return -1
	}
	return w.engine.Engine.TTFT.V
}

// allTime is the range of slices_between that has everything.
const allTime = "from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00'"

func (r *recount) checkSlices(ctx context.Context, conn *clickhouse.Conn, f findings) error {
	var sums []string
	for _, c := range sliceColumns {
		sums = append(sums, "toFloat64("+c+")")
	}
	seen := map[sliceKey]bool{}
	err := each(ctx, conn, "SELECT toInt64(minute), toString(policy), toString(model), toString(path), toString(tier), toString(link), size_bucket, ["+
		strings.Join(sums, ", ")+"], ttft_hist FROM slices_between("+allTime+")", func(scan func(...any) error) error {
		var k sliceKey
		var got []float64
		var hist []uint32
		if err := scan(&k.Minute, &k.Policy, &k.Model, &k.Path, &k.Tier, &k.Link, &k.Bucket, &got, &hist); err != nil {
			return err
		}
		want := r.slices[k]
		if want == nil || seen[k] {
			f.note(wrongSlice, "%+v, of which there is none or a second row", k)
			return nil
		}
		seen[k] = true
		for i, c := range sliceColumns {
			if !near(got[i], want.sums[i]) {
				f.note(wrongSlice, "%+v: %s is %v, not %v", k, c, got[i], want.sums[i])
				return nil
			}
		}
		if len(hist) != ddl.TTFTBuckets || !slices.Equal(hist, want.hist[:]) {
			f.note(wrongSlice, "%+v: its histogram", k)
		}
		return nil
	})
	for k := range r.slices {
		if !seen[k] {
			f.note(wrongSlice, "%+v, which is missing", k)
		}
	}
	return err
}

// near leaves room for the rounding of a long sum.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// nearly leaves room for a Float32 and for variances that are summed otherwise.
func nearly(a, b float64) bool { return math.Abs(a-b) <= 1e-4*max(1, math.Abs(b)) }

// checkWorst compares minute by minute: which rows come first among equals is open.
func (r *recount) checkWorst(ctx context.Context, conn *clickhouse.Conn, f findings) error {
	got := map[int64][]wantWorst{}
	err := each(ctx, conn, `SELECT toInt64(minute), rank, id, toFloat64(benefit), toFloat64(shrunk) FROM worst FINAL
WHERE (minute, gen) IN (SELECT minute, max(gen) FROM worst GROUP BY minute) ORDER BY minute, rank`, func(scan func(...any) error) error {
		var minute int64
		var rank uint8
		var id string
		var w wantWorst
		if err := scan(&minute, &rank, &id, &w.known, &w.shrunk); err != nil {
			return err
		}
		w.id = schema.RowID([]byte(id))
		if got[minute] = append(got[minute], w); int(rank) != len(got[minute]) {
			f.note(wrongWorst, "minute %d has rank %d in place %d", minute, rank, len(got[minute]))
		}
		return nil
	})
	for minute, want := range r.worst {
		r.compareWorst(f, minute, got[minute], want)
		delete(got, minute)
	}
	for minute := range got {
		f.note(wrongWorst, "minute %d, in which nothing was sent", minute)
	}
	return err
}

func (r *recount) compareWorst(f findings, minute int64, got, want []wantWorst) {
	all := map[schema.RowID]wantWorst{}
	for _, w := range want {
		all[w.id] = w
	}
	if n := min(worstKept, len(want)); len(got) != n {
		f.note(wrongWorst, "minute %d has %d rows, not %d", minute, len(got), n)
		return
	}
	for i, g := range got {
		w, ok := all[g.id]
		if delete(all, g.id); !ok || !nearly(g.known, w.known) || !nearly(g.shrunk, w.shrunk) || !nearly(g.shrunk, want[i].shrunk) {
			f.note(wrongWorst, "minute %d, rank %d: %+v, not %+v, and by rank %+v", minute, i+1, g, w, want[i])
			return
		}
	}
}

func (r *recount) checkTransfers(ctx context.Context, conn *clickhouse.Conn, f findings) error {
	seen, rows := 0, 0
	err := each(ctx, conn, `SELECT toString(origin), toString(operation), toString(tier), toString(link), joined = 1,
[toFloat64(count()), toFloat64(sum(ifNull(bytes, 0))), sum(ifNull(duration, 0)), toFloat64(sum(ifNull(tokens, 0)))], uniqExact(trace, span)
FROM transfers FINAL GROUP BY ALL`, func(scan func(...any) error) error {
		var k transferKey
		var got []float64
		var distinct uint64
		if err := scan(&k.Origin, &k.Operation, &k.Tier, &k.Link, &k.Joined, &got, &distinct); err != nil {
			return err
		}
		rows += int(got[0])
		seen++
		want := r.transfers[k]
		if want == nil || float64(distinct) != got[0] || !slices.EqualFunc(got, want[:], near) {
			f.note(wrongMoves, "%+v: %v, %d spans, not %v", k, got, distinct, want)
		}
		return nil
	})
	if seen != len(r.transfers) || rows != r.moves {
		f.note(wrongMoves, "%d groups and %d rows, not %d and %d", seen, rows, len(r.transfers), r.moves)
	}
	return err
}

func (r *recount) checkLegs(ctx context.Context, conn *clickhouse.Conn, f findings) error {
	seen := map[spanKey]bool{}
	err := each(ctx, conn, "SELECT trace, span, toString(leg), toFloat64(ifNull(ttft, -1)), id FROM replays FINAL", func(scan func(...any) error) error {
		var trace, leg, id string
		var span uint64
		var ttft float64
		if err := scan(&trace, &span, &leg, &ttft, &id); err != nil {
			return err
		}
		k := keyOf(trace, span)
		want := r.legs[k]
		if want == nil || seen[k] || leg != want.Replay.Leg.String() || ttft != want.Observed.TTFT.Or(-1) || r.rows[schema.RowID([]byte(id))] == nil {
			f.note(wrongLegs, "%v: %s, %v s", k, leg, ttft)
		}
		seen[k] = true
		return nil
	})
	if len(seen) != len(r.legs) {
		f.note(wrongLegs, "%d, not %d", len(seen), len(r.legs))
	}
	return err
}

func (r *recount) checkWaiting(ctx context.Context, conn *clickhouse.Conn, f findings) error {
	n := 0
	err := each(ctx, conn, "SELECT trace, span FROM waiting FINAL", func(scan func(...any) error) error {
		var trace string
		var span uint64
		if err := scan(&trace, &span); err != nil {
			return err
		}
		if n++; !r.waiting[keyOf(trace, span)] {
			f.note(wrongWait, "%v, whose request is there", keyOf(trace, span))
		}
		return nil
	})
	if n != len(r.waiting) {
		f.note(wrongWait, "%d, not %d", n, len(r.waiting))
	}
	return err
}
