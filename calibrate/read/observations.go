package read

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
)

//go:embed requests.sql
var requestsSQL string

//go:embed transfers.sql
var transfersSQL string

// MaxRequests bounds the requests of one reading, some 2 GB in memory.
const MaxRequests = 4_000_000

// Observations reads the requests that were decided in [from, until), Unix
// nanoseconds, and every transfer on their links whose first byte was then: of
// requests, of transfer spans, and of legs of replays, for overlaps are exact only
// with all of them. Transfers that were under way at from are not among them, so
// take a window that is long beside a transfer.
//
// A GPU queue was reported as the coordinator logged it, less the law that its
// document had put on it: see queueLaws.
func Observations(ctx context.Context, conn driver.Conn, f Filter, from, until int64) (fit.Observations, error) {
	r := reader{names: names{}, out: fit.Observations{FromNanos: from, UntilNanos: until}}
	if err := checkWindow(from, until); err != nil {
		return r.out, fmt.Errorf("read observations: %w", err)
	}
	rows, err := conn.Query(ctx, requestsSQL, f.arguments(from, until)...)
	if err := each(rows, err, r.request); err != nil {
		return r.out, fmt.Errorf("read observations of requests: %w", err)
	}
	rows, err = conn.Query(ctx, transfersSQL, f.arguments(from, until)...)
	if err := each(rows, err, r.transfer); err != nil {
		return r.out, fmt.Errorf("read observations of transfers: %w", err)
	}
	laws, err := queueLaws(ctx, conn, r.revisions())
	if err != nil {
		return r.out, err
	}
	r.unlaw(laws)
	return r.out, nil
}

type reader struct {
	names  names
	out    fit.Observations
	queues []logged
}

// request adds what one request observed.
func (r *reader) request(rows driver.Rows) error {
	var o observed
	if err := o.scan(rows); err != nil {
		return err
	}
	if o.bytes > 0 && o.link != "" && o.first == o.first {
		r.flow(&o)
	}
	if o.at < r.out.FromNanos {
		return nil
	}
	if r.out.Requests++; r.out.Requests > MaxRequests {
		return fmt.Errorf("more than %d requests: fit a shorter window, or fewer policies", MaxRequests)
	}
	if o.prefill > 0 && o.prompt > o.reused {
		r.out.Prefill = append(r.out.Prefill, fit.PrefillObs{Model: r.names.one(o.model), GPU: r.names.one(o.gpu),
			Computed: o.prompt - o.reused, Before: o.reused, Seconds: o.prefill, At: o.at})
	}
	if o.bytes > 0 && o.restore >= 0 {
		r.out.Restore = append(r.out.Restore, fit.RestoreObs{Model: r.names.one(o.model), Tier: r.names.one(o.tier),
			Bytes: o.bytes, Seconds: o.restore, At: o.at})
	}
	if o.reported >= 0 && o.gpuQueue >= 0 {
		r.queues = append(r.queues, logged{revision: o.revision, queue: o.reported, observed: o.gpuQueue, at: o.at})
	}
	if fetched := o.queue + o.transfer; o.bytes > 0 && fetched >= 0 && o.gpuQueue >= 0 && o.stall >= 0 {
		r.out.Stall = append(r.out.Stall, fit.StallObs{GPUQueue: o.gpuQueue, Fetched: fetched, Stall: o.stall})
	}
	return nil
}

// flow adds a request's own transfer, if its first byte was in the window.
func (r *reader) flow(o *observed) {
	first := o.at + int64(o.first*1e9)
	if first >= r.out.FromNanos && first < r.out.UntilNanos && o.transfer > 0 {
		r.add(o.tier, o.link, o.pair, first, o.queue, o.transfer, o.bytes)
	}
}

func (r *reader) add(tier, link, pair string, first int64, queue, duration, bytes float64) {
	start := float64(first-r.out.FromNanos) / 1e9
	r.out.Transfer = append(r.out.Transfer, fit.TransferObs{Tier: r.names.one(tier), Link: r.names.one(link),
		Pair: r.names.one(pair), Start: start, End: start + duration, Queue: queue, Bytes: bytes})
}

// transfer adds a movement that no request's own span tells of.
func (r *reader) transfer(rows driver.Rows) error {
	var tier, link, pair string
	var first int64
	var queue, duration, bytes float64
	if err := rows.Scan(&tier, &link, &pair, &first, &queue, &duration, &bytes); err != nil {
		return err
	}
	r.add(tier, link, pair, first, queue, duration, bytes)
	return nil
}

// observed is a row of requests.sql.
type observed struct {
	at, revision                           int64
	model, gpu, tier, link, pair           string
	prompt, reused, bytes, gpuQueue        float64
	queue, transfer, first, stall, restore float64
	prefill                                float64
	reported                               float64
}

func (o *observed) scan(rows driver.Rows) error {
	return rows.Scan(&o.at, &o.revision, &o.model, &o.gpu, &o.tier, &o.link, &o.pair, &o.prompt, &o.reused, &o.bytes,
		&o.gpuQueue, &o.queue, &o.transfer, &o.first, &o.stall, &o.restore, &o.prefill, &o.reported)
}
