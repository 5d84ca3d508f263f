package load

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/schema"
)

var nan = math.NaN()

func TestARequestIsARowWithEveryColumn(t *testing.T) {
	w := newWorld(t)
	w.topic.publish(0, contract(1, 0), leg(1, 0))
	w.loaded()
	require.Equal(t, fmt.Sprintf("%s\t%s\t1\tcontract\talways\t3\tt\tfetch\t0\tllama\tH200\tw1\tw2\tpeer\tleaf\t4000\t1000\t2048\t268435456\t1\t2\t0.1\n",
		schema.NewRowID(traceOf(1), spanOf(1)), traceOf(1)),
		w.lines("SELECT lower(hex(id)), lower(hex(trace)), length(spans), kind, policy, revision, tenant, path, chosen, model, gpu, worker, source_worker, tier, link, tokens_prompt, tokens_prefix, tokens_reused, bytes, link_flows, worker_active, state_age FROM requests FINAL"))
	require.Equal(t, "['fetch','recompute']\t['w1','w1']\t[2048,0]\t[268435456,-1]\t[0.01,nan]\t[0.9,0.1]\trecompute\t0.6\t0\t0.05\n",
		w.lines("SELECT candidate.path, candidate.worker, candidate.tokens_fetched, candidate.bytes, candidate.transfer_queue, candidate.propensity, alt_path, alt_ttft, alt_externality, externality FROM requests FINAL"))
	ttft := contract(1, 0).Observed.TTFT.V
	require.InDelta(t, 0.6-ttft-0.05, w.number("SELECT benefit FROM requests FINAL"), 1e-6)
	require.InDelta(t, 0.009, w.number("SELECT remainder FROM requests FINAL"), 1e-6)
	require.Equal(t, "contract\tpeer\tleaf\t268435456\t0.03\t1\t1\t2048\n", w.lines("SELECT origin, tier, link, bytes, duration, exact, joined, tokens FROM transfers FINAL"))
	require.EqualValues(t, contract(1, 0).StartNanos+20e6, w.number("SELECT toUnixTimestamp64Nano(start) FROM transfers"))
	require.Equal(t, fmt.Sprintf("%s\tplan\trecompute\t1\t0.05\trejected\tb\t3\t0.6\t0.5\t0.4\t0\talways\tleaf\t0.01\n", schema.NewRowID(traceOf(1), spanOf(1))),
		w.lines("SELECT lower(hex(id)), plan, path, candidate, inclusion, leg, batch, decision_flows, model_decision, model_replay, cost_gpu, cost_bytes, policy, link, gpu_queue FROM replays FINAL"))
	require.Equal(t, w.topic.ends(), w.topic.done())
}

func TestOneRowARequestThroughResends(t *testing.T) {
	w := newWorld(t)
	const n = 200
	for round := range 3 {
		for i := range uint64(n) {
			at := time.Duration(i) * time.Second
			w.topic.publish(round, contract(i, at), contract(i, at), engine(i, at), transfer(i, 0, at), leg(i, at), engine(i, at))
		}
	}
	w.loaded()
	w.loaded()
	require.EqualValues(t, n, w.number("SELECT count() FROM requests FINAL"))
	require.EqualValues(t, n, w.number("SELECT count() FROM requests FINAL WHERE length(spans) = 3 AND length(contents) = 3 AND arraySum(mapValues(moved)) = 1000"))
	require.EqualValues(t, n, w.number("SELECT sum(n) FROM "+currentSlices))
	require.EqualValues(t, 0, w.number("SELECT sum(conflicts) FROM "+currentSlices))
	require.EqualValues(t, n, w.number("SELECT count() FROM replays FINAL"))
	require.EqualValues(t, 2*n, w.number("SELECT count() FROM transfers FINAL"))
	require.EqualValues(t, 0, w.number("SELECT count() FROM waiting FINAL"))
	w.slicesEqualARecount()
}

// TestLatePartMovesARequestToAnotherSlice: without the filter on gen the
// rollup counts the request twice.
func TestLatePartMovesARequestToAnotherSlice(t *testing.T) {
	w := newWorld(t)
	l, stop := w.run()
	defer stop()
	bare := contract(1, 0)
	bare.Decision.Model = ""
	w.topic.publish(0, bare, contract(2, 0))
	w.settled(l)
	require.Equal(t, "\t1\nllama\t1\n", w.lines("SELECT model, n FROM "+currentSlices+" ORDER BY model"))
	w.topic.publish(0, engine(1, 0))
	w.settled(l)
	require.Equal(t, "llama\t1\nllama-3\t1\n", w.lines("SELECT model, n FROM "+currentSlices+" ORDER BY model"))
	require.EqualValues(t, 3, w.number("SELECT sum(n) FROM slices FINAL"), "the row of the old slice is still there")
	require.EqualValues(t, 2, w.number(fmt.Sprintf("SELECT sum(n) FROM slices_between(from = toDateTime(%d), until = toDateTime(%d))", base.Unix(), base.Unix()+60)))
	w.slicesEqualARecount()
}

// TestSecondTransferThatSetsNothingNew: its bytes count all the same.
func TestSecondTransferThatSetsNothingNew(t *testing.T) {
	w := newWorld(t)
	l, stop := w.run()
	defer stop()
	w.topic.publish(0, contract(1, 0), engine(1, 0), transfer(1, 0, 0))
	w.settled(l)
	require.EqualValues(t, 1000, w.number("SELECT sum(sum_moved) FROM "+currentSlices))
	w.topic.publish(0, transfer(1, 1, 0), transfer(1, 0, 0))
	w.settled(l)
	require.EqualValues(t, 2000, w.number("SELECT sum(sum_moved) FROM "+currentSlices))
	require.EqualValues(t, 4, w.number("SELECT max(gen) FROM slices"))
}

// TestPartsInAnyOrder loads the parts of some requests in many orders, one
// message each, and wants the same tables.
func TestPartsInAnyOrder(t *testing.T) {
	tables := func(w *world) string {
		return w.lines("SELECT minute, hex(id), arraySort(spans), policy, engine_model, mapSort(moved), ttft, engine_ttft FROM requests FINAL ORDER BY id") +
			w.lines("SELECT minute, policy, model, link, size_bucket, n, sum_moved, round(sum_benefit, 6), gen FROM "+currentSlices+" ORDER BY ALL") +
			w.lines("SELECT hex(trace), span, hex(id), joined FROM transfers FINAL ORDER BY trace, span")
	}
	var want string
	for order := range 4 {
		w := newWorld(t)
		var parts []*schema.Part
		for n := range uint64(5) {
			at := time.Duration(n) * 20 * time.Second
			parts = append(parts, contract(n, at), engine(n, at), transfer(n, 0, at), transfer(n, 1, at))
		}
		l, stop := w.run()
		for i := range parts {
			j := []int{i, len(parts) - 1 - i, i * 7 % len(parts), i * 13 % len(parts)}[order]
			w.topic.publish(i%3, parts[j])
		}
		w.settled(l)
		w.settled(l) // transfers hang on engines' spans that joined just now
		stop()
		if want == "" {
			want = tables(w)
		}
		require.Equal(t, want, tables(w), "order %d", order)
	}
}

func TestReplaysNeverEnterRequests(t *testing.T) {
	w := newWorld(t)
	id := schema.ReplayRequestIDPrefix + "7"
	spanOfLeg, moved, forced := engine(3, 0), transfer(3, 0, 0), contract(4, 0)
	spanOfLeg.RequestID, moved.RequestID, forced.RequestID = id, id, id
	w.topic.publish(0, leg(1, 0), spanOfLeg, moved, forced)
	w.loaded()
	require.EqualValues(t, 0, w.number("SELECT count() FROM requests"))
	require.EqualValues(t, 0, w.number("SELECT count() FROM waiting"))
	require.EqualValues(t, 1, w.number("SELECT count() FROM replays"))
	require.Equal(t, "replay\n", w.lines("SELECT origin FROM transfers"))
}

func TestCrashBetweenInsertAndCommit(t *testing.T) {
	w := newWorld(t)
	for i := range uint64(50) {
		w.topic.publish(int(i%2), contract(i, time.Duration(i)*3*time.Second), engine(i, time.Duration(i)*3*time.Second))
	}
	for range 2 { // inserts, and dies before anything is made again or committed
		l := w.loader(w.topic.member())
		for range 50 {
			m, err := l.opts.Source.Fetch(t.Context())
			require.NoError(t, err)
			l.batch.message(m)
		}
		require.NoError(t, l.round(t.Context()))
		require.Empty(t, w.topic.done())
	}
	dead := w.topic.member() // makes rollups, and dies before the commit
	dead.noCommit = true
	ctx, cancel := context.WithCancel(t.Context())
	l := w.loader(dead)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	w.settled(l)
	cancel()
	require.NoError(t, <-ended)
	require.Empty(t, w.topic.done())

	w.loaded()
	require.Equal(t, w.topic.ends(), w.topic.done())
	require.EqualValues(t, 50, w.number("SELECT count() FROM requests FINAL"))
	require.EqualValues(t, 50, w.number("SELECT sum(n) FROM "+currentSlices))
	w.slicesEqualARecount()
}

func TestOrphanAfterADay(t *testing.T) {
	w := newWorld(t)
	w.topic.publish(0, engine(1, 0), transfer(2, 0, 0))
	w.loaded()
	require.EqualValues(t, 0, w.number("SELECT count() FROM requests"))
	require.EqualValues(t, 2, w.number("SELECT count() FROM waiting FINAL"))
	w.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	w.loaded()
	w.loaded()
	require.EqualValues(t, 0, w.number("SELECT count() FROM waiting FINAL"))
	require.Equal(t, "orphan\tllama-3\t0\norphan\t\t1000\n", w.lines("SELECT kind, engine_model, arraySum(mapValues(moved)) m FROM requests FINAL ORDER BY m"))
	require.Equal(t, "0\t2\n", w.lines("SELECT sum(n), sum(orphans) FROM "+currentSlices))
}

func TestJoinByTraceOnlyAfterAWait(t *testing.T) {
	w := newWorld(t)
	stray := engine(1, 0)
	stray.Parent, stray.RequestID = schema.SpanID{}, ""
	w.topic.publish(0, contract(1, 0), stray)
	w.loaded()
	require.EqualValues(t, 1, w.number("SELECT count() FROM waiting FINAL"), "another anchor of the trace may come")
	w.now = func() time.Time { return time.Now().Add(time.Minute) }
	w.loaded()
	require.EqualValues(t, 0, w.number("SELECT count() FROM waiting FINAL"))
	require.Equal(t, "2\tllama-3\n", w.lines("SELECT length(spans), engine_model FROM requests FINAL"))

	second := contract(2, 0) // two anchors in one trace: no guess
	second.Trace = contract(1, 0).Trace
	other := engine(3, 0)
	other.Trace, other.Parent, other.RequestID = second.Trace, schema.SpanID{}, ""
	w.topic.publish(0, second, other)
	w.loaded()
	w.now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	w.loaded()
	require.EqualValues(t, 1, w.number("SELECT count() FROM waiting FINAL"))
}

func TestEngineSpansAsAnchors(t *testing.T) {
	w := newWorld(t)
	w.cfg.Anchor = AnchorEngine
	w.topic.publish(0, transfer(1, 0, 0), engine(1, 0))
	w.loaded()
	require.Equal(t, "engine\tllama-3\t2\t1000\n", w.lines("SELECT kind, engine_model, length(spans), arraySum(mapValues(moved)) FROM requests FINAL"))
	require.Equal(t, "llama-3\t1\t1\n", w.lines("SELECT model, n, unknown FROM "+currentSlices))
}

func TestManyDaysInOneBatch(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, migrate.SetRetention(t.Context(), w.conn, migrate.Retention{Requests: 300, Legs: 300}))
	var parts []*schema.Part
	for i := range uint64(110) {
		at := -time.Duration(i) * 24 * time.Hour
		parts = append(parts, contract(i, at), leg(i, at))
	}
	w.topic.publish(0, parts...)
	w.loaded()
	require.EqualValues(t, 110, w.number("SELECT count() FROM requests FINAL"))
	require.EqualValues(t, 110, w.number("SELECT count() FROM replays FINAL"))
	require.EqualValues(t, 110, w.number("SELECT sum(n) FROM "+currentSlices))
}

func TestFromBeginningChangesNothing(t *testing.T) {
	w := newWorld(t)
	for i := range uint64(20) {
		w.topic.publish(0, contract(i, 0), engine(i, 0))
	}
	w.loaded()
	before := w.lines("SELECT * EXCEPT (computed) FROM " + currentSlices + " ORDER BY ALL")
	w.topic.committed = map[int]int64{} // as a new group has it
	w.cfg.FromBeginning = true
	w.loaded()
	require.Equal(t, before, w.lines("SELECT * EXCEPT (computed) FROM "+currentSlices+" ORDER BY ALL"))
	require.EqualValues(t, 20, w.number("SELECT count() FROM requests FINAL"))
}

// slicesEqualARecount compares the rollup with plain sums over requests.
func (w *world) slicesEqualARecount() {
	w.t.Helper()
	want := w.lines(`SELECT toUnixTimestamp(minute), count(), countIf(benefit < 0), countIf(benefit IS NULL), round(ifNull(sum(toFloat64(benefit)), 0), 4),
round(sum(toFloat64(ttft)), 4), round(sum(toFloat64(prefill)), 4), sum(bytes), sum(arraySum(mapValues(moved))), sum(length(spans)), count(ttft)
FROM requests FINAL GROUP BY minute ORDER BY minute`)
	got := w.lines(`SELECT toUnixTimestamp(minute), sum(n), sum(hurt), sum(unknown), round(sum(sum_benefit), 4),
round(sum(sum_ttft), 4), round(sum(sum_prefill), 4), sum(sum_bytes), sum(sum_moved), arraySum(mapValues(maxMap(map(shard, gen)))), sum(arraySum(ttft_hist))
FROM ` + currentSlices + ` GROUP BY minute ORDER BY minute`)
	wants, gots := strings.Fields(want), strings.Fields(got)
	require.Len(w.t, gots, len(wants))
	for i := range wants {
		x, err := strconv.ParseFloat(wants[i], 64)
		require.NoError(w.t, err)
		y, err := strconv.ParseFloat(gots[i], 64)
		require.NoError(w.t, err)
		require.InDelta(w.t, x, y, 0.001, "column %d of minute %s", i%11, wants[i/11*11])
	}
}

func TestHistogramGivesPercentiles(t *testing.T) {
	w := newWorld(t)
	parts := []*schema.Part{}
	for i := range uint64(2000) {
		p := contract(i, 0)
		p.Observed.TTFT.V = math.Exp(float64(i)/300) / 1000 // 1 ms to 785 ms
		parts = append(parts, p)
	}
	for i, ttft := range []float64{-1, 0, 1e-9, 70, 1e6} {
		p := contract(uint64(3000+i), time.Minute)
		p.Observed.TTFT.V = ttft
		parts = append(parts, p)
	}
	w.topic.publish(0, parts...)
	w.loaded()
	const percentile = `WITH sumForEach(ttft_hist) AS h, arrayCumSum(h) AS c
SELECT 0.001 * pow(2, (arrayFirstIndex(x -> x >= 0.95 * c[-1], c) - 1) / 8) FROM slices_between(from = toDateTime(%d), until = toDateTime(%d))`
	got := w.number(fmt.Sprintf(percentile, base.Unix(), base.Unix()+60))
	exact := math.Exp(0.95*2000/300) / 1000
	require.InEpsilon(t, exact, got, 0.095)
	require.Equal(t, "3\t2\n", w.lines(fmt.Sprintf("SELECT sum(ttft_hist[1]), sum(ttft_hist[129]) FROM slices WHERE minute = %d", base.Unix()+60)))
}

func TestWorstDecisions(t *testing.T) {
	w := newWorld(t)
	w.cfg.Worst = 3
	for i := range uint64(30) {
		p := contract(i, time.Duration(i%2)*time.Minute)
		p.Decision.Candidates[0].TTFT = p.Observed.TTFT.V + 0.01*float64(i%3) // predictions are close
		w.topic.publish(0, p)
	}
	w.loaded()
	for i := range uint64(2) {
		m := base.Unix() + int64(i)*60
		got := w.lines(fmt.Sprintf("SELECT hex(id) FROM worst FINAL WHERE minute = %d ORDER BY rank", m))
		require.Equal(t, w.lines(fmt.Sprintf("SELECT hex(id) FROM requests FINAL WHERE minute = %d ORDER BY benefit LIMIT 3", m)), got)
	}
	require.EqualValues(t, 0, w.number("SELECT count() FROM worst WHERE abs(shrunk - benefit) > 0.1 OR shrunk < benefit"), "worst are drawn up to the mean, and little where predictions are close")
}
