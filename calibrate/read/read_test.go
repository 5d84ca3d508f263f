package read

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

func TestLawsAreFoundAgain(t *testing.T) { migratetest.Each(t, lawsAreFoundAgain) }

func lawsAreFoundAgain(t *testing.T, conn *clickhouse.Conn) {
	store(t, conn, "mine", world(1, 2000))
	store(t, conn, "other", world(2, 2000)) // another run of the same link at the same time
	require.NoError(t, conn.Exec(t.Context(), fmt.Sprintf(
		`INSERT INTO coefficients (revision, created, payload) VALUES (3, now(), '{"queue":{"bias":%v,"slope":%v,"quality":{"n":100}}}')`, docBias, docSlope)))

	// A transfer that no request tells of belongs to nobody, so a filter drops it.
	o, err := Observations(t.Context(), conn, Filter{Policies: []string{"mine"}, Services: []string{"router"}}, from, until)
	require.NoError(t, err)
	assert.EqualValues(t, 1800, o.Requests)
	assert.Equal(t, 1600, len(o.Prefill))
	assert.Equal(t, 1600, len(o.Restore))
	assert.Equal(t, 1600, len(o.Queue))
	assert.Equal(t, 1600, len(o.Stall))
	assert.InDelta(t, 1800, len(o.Transfer), 2, "requests and legs, each once; the last may begin after the window")

	laws, skipped := fit.All(o, 0)
	require.Empty(t, skipped)
	for _, x := range [][2]float64{{1000, 0}, {4000, 20000}, {300, 5000}} {
		assert.InEpsilon(t, truePrefill.Seconds(x[0], x[1]), laws.Prefill[0].Law.Seconds(x[0], x[1]), 0.02)
	}
	assert.InEpsilon(t, trueRestore.Seconds(2e9), laws.Restore[0].Law.Seconds(2e9), 0.02)
	assert.InEpsilon(t, trueSlope, laws.Queue.Slope, 0.05, "the law of the document is taken off what was logged")
	assert.InDelta(t, trueBias, laws.Queue.Bias, 0.01)
	require.Len(t, laws.Transfer, 1)
	assert.Equal(t, []string{"cpu", "spine"}, []string{laws.Transfer[0].Tier, laws.Transfer[0].Link})
	assert.InEpsilon(t, trueTransfer.T0, laws.Transfer[0].Law.T0, 0.05)
}

func TestALinkIsFoundAgainFromAllThatIsOnIt(t *testing.T) {
	conn := database(t)
	store(t, conn, "mine", world(1, 3000))
	o, err := Observations(t.Context(), conn, Filter{}, from, until)
	require.NoError(t, err)
	assert.InDelta(t, 3000, len(o.Transfer), 2, "requests, legs and bare transfers, each once")
	laws, _ := fit.All(o, 0)
	require.Len(t, laws.Transfer, 1)
	got := laws.Transfer[0]
	assert.InEpsilon(t, trueTransfer.Link.B, got.Law.Link.B, 0.01)
	assert.Less(t, got.Quality.Error, 0.01, "with every overlap known, sharing is exact")
	assert.Greater(t, got.Quality.MaxConcurrent, 4.0)
}

func TestAWindowHoldsItsOwn(t *testing.T) {
	conn := database(t)
	store(t, conn, "mine", world(1, 1000))
	whole, err := Observations(t.Context(), conn, Filter{}, from, until)
	require.NoError(t, err)
	mid := from + int64(17*time.Minute+321*time.Millisecond)
	first, err := Observations(t.Context(), conn, Filter{}, from, mid)
	require.NoError(t, err)
	second, err := Observations(t.Context(), conn, Filter{}, mid, until)
	require.NoError(t, err)
	assert.Equal(t, whole.Requests, first.Requests+second.Requests)
	assert.Equal(t, len(whole.Transfer), len(first.Transfer)+len(second.Transfer))
	assert.Equal(t, len(whole.Prefill), len(first.Prefill)+len(second.Prefill))

	none, err := Observations(t.Context(), conn, Filter{Services: []string{"it's \\ nobody"}}, from, until)
	require.NoError(t, err)
	assert.Zero(t, none.Requests)
	assert.Zero(t, len(none.Transfer))
	_, err = Observations(t.Context(), conn, Filter{}, until, from)
	assert.ErrorContains(t, err, "start before its end")
}

func TestQueueLawIsTakenOff(t *testing.T) {
	for _, tc := range []struct {
		law  queueLaw
		in   float64
		want float64
		ok   bool
	}{
		{queueLaw{}, 0.3, 0.3, true},
		{queueLaw{fitted: true, slope: 2}, 0.3, 0.15, true},
		{queueLaw{fitted: true, slope: 2, bias: 0.1}, 0.3, 0.1, true},
		{queueLaw{fitted: true, slope: 2, bias: -0.1}, 0.3, 0.2, true},
		{queueLaw{fitted: true, slope: 2, bias: -0.1}, 0, 0, false},
		{queueLaw{fitted: true, slope: 2, bias: 0.1}, 0.05, 0, false},
		{queueLaw{fitted: true}, 0.3, 0, false},
	} {
		got, ok := tc.law.reported(tc.in)
		assert.Equal(t, tc.ok, ok, tc)
		assert.InDelta(t, tc.want, got, 1e-12, tc)
	}
	r := reader{queues: []logged{{revision: 9, queue: 1}, {queue: 2}}}
	r.unlaw(map[int64]queueLaw{0: {}})
	assert.Equal(t, 1, len(r.out.Queue), "the document of revision 9 is gone: what was reported is not known")
}

func TestDemand(t *testing.T) { migratetest.Each(t, demand) }

func demand(t *testing.T, conn *clickhouse.Conn) {
	at := start.Format("2006-01-02 15:04:05")
	insert := func(id, service, policy, paths, workers, links, bytes, recompute, queue, imposed string) {
		require.NoError(t, conn.Exec(t.Context(), "INSERT INTO requests (minute, id, kind, start, service, policy, `candidate.path`, `candidate.worker`, `candidate.tier`, `candidate.links`, `candidate.bytes`, `candidate.recompute`, `candidate.gpu_queue`, `candidate.externality`) SELECT toStartOfMinute(toDateTime('"+at+"', 'UTC')), '"+id+"', 'contract', toDateTime('"+at+"', 'UTC'), '"+service+"', '"+policy+"', "+paths+", "+workers+", arrayMap(x -> if(x = 'fetch', 'cpu', ''), "+paths+"), "+links+", "+bytes+", "+recompute+", "+queue+", "+imposed))
	}
	// Recompute elsewhere, recompute here, half of the fetch, all of it.
	insert("0000000000000001", "r1", "mine", "['recompute', 'recompute', 'fetch', 'fetch']", "['w2', 'w1', 'w1', 'w1']", "['', '', 'a+b', 'a+b']",
		"[0, 0, 500, 1000]", "[9, 2, 1.2, 0.5]", "[9, 1, 1, 1]", "[9, 0.4, 7, 7]")
	insert("0000000000000002", "r1", "mine", "['recompute', 'fetch']", "['w1', 'w1']", "['', 'c']", "[-1, 10]", "[3, 1]", "[nan, nan]", "[nan, nan]")
	insert("0000000000000003", "r2", "mine", "['recompute']", "['w1']", "['']", "[0]", "[3]", "[0]", "[0]")
	insert("0000000000000004", "r2", "mine", "['fetch']", "['w1']", "['a']", "[10]", "[3]", "[0]", "[0]") // nothing to weigh it against
	insert("0000000000000005", "r3", "other", "['recompute', 'fetch']", "['w1', 'w1']", "['', 'a']", "[0, 10]", "[3, 1]", "[0, 0]", "[0, 0]")

	d, err := Demand(t.Context(), conn, Filter{Policies: []string{"mine"}}, from, until)
	require.NoError(t, err)
	assert.EqualValues(t, 4, d.Requests)
	assert.ElementsMatch(t, []string{"r1", "r2"}, d.Services)
	require.Len(t, d.Routes, 2)
	a := d.Routes[Route{"cpu", "a"}]
	require.Len(t, a, 1)
	assert.Equal(t, 1000.0, a[0].Bytes)
	assert.Equal(t, 1.5, a[0].Recompute)
	whole, suffix := cost.ComputeExternality(2, 1, 1, 0), cost.ComputeExternality(0.5, 1, 1, 0)
	assert.InDelta(t, 0.4*(whole-suffix)/whole, a[0].GPUExternality, 1e-7)
	assert.Equal(t, []cost.Demand{{Bytes: 10, Recompute: 2}}, d.Routes[Route{"cpu", "c"}])

	d, err = Demand(t.Context(), conn, Filter{}, from+1, until)
	require.NoError(t, err)
	assert.Zero(t, d.Requests)
	_, err = Demand(t.Context(), conn, Filter{}, 0, 0)
	assert.ErrorContains(t, err, "start before its end")
	assert.False(t, math.Signbit(a[0].GPUExternality))
}

func TestCutGoesByRequests(t *testing.T) { migratetest.Each(t, cutGoesByRequests) }

func cutGoesByRequests(t *testing.T, conn *clickhouse.Conn) {
	store(t, conn, "mine", world(1, 2000))
	at, n, err := Cut(t.Context(), conn, Filter{Policies: []string{"mine"}}, from, until, 0.7)
	require.NoError(t, err)
	require.EqualValues(t, 1800, n)
	before, err := Observations(t.Context(), conn, Filter{Policies: []string{"mine"}}, from, at)
	require.NoError(t, err)
	assert.InDelta(t, 0.7*1800, before.Requests, 2)
	after, err := HeldOut(t.Context(), conn, Filter{Policies: []string{"mine"}}, at, until)
	require.NoError(t, err)
	for _, r := range after {
		require.GreaterOrEqual(t, r.AtNanos, at)
	}
	assert.NotEmpty(t, after)

	at, n, err = Cut(t.Context(), conn, Filter{Policies: []string{"nobody"}}, from, until, 0.7)
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.Equal(t, until, at)
	_, _, err = Cut(t.Context(), conn, Filter{}, until, from, 0.7)
	require.ErrorContains(t, err, "is empty")
}
