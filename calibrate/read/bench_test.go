package read

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkObservations reads a million requests of an hour, half of which fetched.
func BenchmarkObservations(b *testing.B) {
	const n = 1_000_000
	conn := database(b)
	require.NoError(b, conn.Exec(b.Context(), fmt.Sprintf("INSERT INTO requests (minute, id, kind, start, service, policy, chosen, model, gpu, worker, source_worker, tier, link, tokens_prompt, tokens_reused, bytes, gpu_queue, transfer_queue, transfer, transfer_start, exposed_stall, restore, prefill, `candidate.path`, `candidate.gpu_queue`, `candidate.ttft`) "+
		"SELECT toStartOfMinute(at), toFixedString(leftPad(toString(number), 16), 16), 'contract', fromUnixTimestamp64Nano(toInt64(%d) + toInt64(number) * %d, 'UTC') AS at, 'router', 'mine', 1, 'm', 'g', concat('w', toString(number %% 16)), 'store', 'cpu', 'spine', 8000, 6000, if(number %% 2, 1000000000, 0), 0.2, 0.01, 0.1, 0.01, 0, 0.005, 0.3, ['recompute', 'fetch', 'fetch'], [0.2, 0.2, 0.2], [1, 2, 3] FROM numbers(%d)",
		from, int64(time.Hour)/n, n)))
	for b.Loop() {
		o, err := Observations(b.Context(), conn, Filter{Policies: []string{"mine"}}, from, until)
		require.NoError(b, err)
		require.EqualValues(b, n, o.Requests)
		require.InDelta(b, n/2, len(o.Transfer), 5)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// BenchmarkDemand reads the 20 seconds that a server prices by, of a million
// requests an hour.
func BenchmarkDemand(b *testing.B) {
	conn := database(b)
	require.NoError(b, conn.Exec(b.Context(), fmt.Sprintf("INSERT INTO requests (minute, id, kind, start, service, policy, `candidate.path`, `candidate.worker`, `candidate.tier`, `candidate.links`, `candidate.bytes`, `candidate.recompute`, `candidate.gpu_queue`, `candidate.externality`) "+
		"SELECT toStartOfMinute(at), toFixedString(leftPad(toString(number), 16), 16), 'contract', fromUnixTimestamp64Nano(toInt64(%d) + toInt64(number) * 3600000, 'UTC') AS at, 'router', 'mine', ['recompute', 'fetch', 'fetch'], ['w1', 'w1', 'w1'], ['', 'cpu', 'cpu'], ['', 'spine', 'spine'], [0, 500000000, 1000000000], [1, 0.6, 0.2], [0, 0, 0], [0.1, 0, 0] FROM numbers(1000000)", from)))
	for b.Loop() {
		middle := (from + until) / 2
		d, err := Demand(b.Context(), conn, Filter{Policies: []string{"mine"}}, middle-int64(20*time.Second), middle)
		require.NoError(b, err)
		require.InDelta(b, 5556, d.Requests, 1)
	}
}
