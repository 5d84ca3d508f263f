//go:build nightly

package load

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// varied is request n with three candidates and values that differ as those of
// a fleet do: random ids, workers and links of a few dozen, skewed durations.
func varied(n uint64, after time.Duration) *schema.Part {
	r := rand.New(rand.NewPCG(n, 7))
	p := contract(n, after)
	for i := range p.Trace {
		p.Trace[i] = byte(r.Uint32())
	}
	for i := range p.Span {
		p.Span[i] = byte(r.Uint32())
	}
	p.RequestID = ""
	d, o := &p.Decision, &p.Observed
	skew := func(scale float64) float64 { return scale * math.Exp(r.NormFloat64()) }
	prefix := int64(skew(4000)) / 512 * 512
	*o = schema.Observed{Bytes: count(prefix * 147456), GPUQueue: seconds(skew(0.01)), TransferQueue: seconds(skew(0.005)), Transfer: seconds(skew(0.05)),
		TransferStart: seconds(skew(0.005)), ExposedStall: seconds(skew(0.02)), Restore: seconds(0), Prefill: seconds(skew(0.1))}
	o.TTFT = seconds(o.GPUQueue.V + o.ExposedStall.V + o.Prefill.V + 0.001)
	d.Worker, d.SourceWorker, d.Link = worker(r), worker(r), "spine"
	d.TokensPrompt, d.TokensPrefix, d.TokensReused = count(prefix+int64(skew(500))), count(prefix), count(prefix)
	d.LinkFlows, d.WorkerActive, d.StateAge = count(int64(r.IntN(20))), count(int64(r.IntN(8))), seconds(r.Float64())
	d.Candidates = nil
	for i := range 3 {
		c := schema.Candidate{Path: schema.Path(1 + i%2), Worker: d.Worker, TokensFetched: prefix, TokensComputed: d.TokensPrompt.V - prefix, Bytes: prefix * 147456,
			GPUQueue: o.GPUQueue.V, TransferQueue: skew(0.005), Bandwidth: 5e10 / float64(1+r.IntN(9)), Restore: 0, Recompute: skew(0.1), TTFT: skew(0.2),
			Externality: skew(0.01), Propensity: 0.95}
		if c.Path == schema.PathFetch {
			c.Source, c.Tier, c.Links = d.SourceWorker, schema.TierPeer, "spine"
		} else {
			c.TokensFetched, c.TokensComputed, c.Bytes, c.TransferQueue, c.Bandwidth = 0, d.TokensPrompt.V, 0, nan, nan
		}
		d.Candidates = append(d.Candidates, c)
	}
	return p
}

func worker(r *rand.Rand) string {
	return "gpu-node-" + string(rune('a'+r.IntN(4))) + "-" + string(rune('0'+r.IntN(8)))
}

// TestMeasure prints what a request costs: loads 300,000 in 40 minutes.
func TestMeasure(t *testing.T) {
	w := newWorld(t)
	const requests = 300_000
	l := w.loader(w.topic.member())
	began, used := time.Now(), cpu()
	for i := range uint64(requests / 400) {
		var parts []*schema.Part
		for j := range uint64(400) {
			n := i*400 + j
			parts = append(parts, varied(n, time.Duration(n)*8*time.Millisecond))
		}
		l.batch.message(kafka.Message{Offset: int64(i), Value: wire.AppendBatch(nil, parts...)})
		if l.batch.full() || i == requests/400-1 {
			at := time.Now()
			rows := l.batch.parts
			if err := l.round(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("inserted %d requests and their transfers in %v", rows, time.Since(at))
		}
	}
	t.Logf("%d requests in %v, own CPU with their making %v", requests, time.Since(began), cpu()-used)
	at := time.Now()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("rollups of 40 minutes: %v", time.Since(at))
	at = time.Now()
	if err := l.store.recompute(t.Context(), []int64{base.Unix() + 600}, 20); err != nil {
		t.Fatal(err)
	}
	t.Logf("one minute of 7,500: %v", time.Since(at))
	if err := w.conn.Exec(t.Context(), "OPTIMIZE TABLE requests FINAL"); err != nil {
		t.Fatal(err)
	}
	t.Logf("bytes a row on disk:\n%s", w.lines("SELECT table, sum(rows), round(sum(bytes_on_disk) / sum(rows), 1) FROM system.parts WHERE active AND database = currentDatabase() AND rows > 0 GROUP BY table ORDER BY table"))
	t.Logf("by column:\n%s", w.lines("SELECT column, round(sum(column_data_compressed_bytes) / sum(rows), 2) b FROM system.parts_columns WHERE active AND database = currentDatabase() AND table = 'requests' GROUP BY column HAVING b > 0.05 ORDER BY b DESC"))
	t.Logf("spent by index:\n%s", w.lines("SELECT sum(secondary_indices_compressed_bytes) / sum(rows), sum(primary_key_size) / sum(rows) FROM system.parts WHERE active AND database = currentDatabase() AND table = 'requests'"))
}
