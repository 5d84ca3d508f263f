package read

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/calibrate/gate"
	"github.com/kvwhatif/kvwhatif/schema"
)

//go:embed heldout.sql
var heldOutSQL string

// HeldOut reads the requests that were decided in [from, until), Unix nanoseconds,
// in order of time, as the gate judges documents by them. One whose reported GPU
// queue can not be told is left out, as in Observations.
func HeldOut(ctx context.Context, conn driver.Conn, f Filter, from, until int64) ([]gate.Request, error) {
	if err := checkWindow(from, until); err != nil {
		return nil, fmt.Errorf("read held-out requests: %w", err)
	}
	h := heldOut{names: names{}}
	rows, err := conn.Query(ctx, heldOutSQL, f.arguments(from, until)...)
	if err := each(rows, err, h.request); err != nil {
		return nil, fmt.Errorf("read held-out requests: %w", err)
	}
	laws, err := queueLaws(ctx, conn, documents(h.revision))
	if err != nil {
		return nil, err
	}
	out := h.requests[:0]
	for i, r := range h.requests {
		law, known := laws[h.revision[i]]
		reported, ok := law.reported(r.ReportedQueue)
		if known && ok && reported == reported {
			r.ReportedQueue = reported
			out = append(out, r)
		}
	}
	return out, nil
}

type heldOut struct {
	names    names
	requests []gate.Request
	revision []int64 // of the document that each was decided by
}

func (h *heldOut) request(rows driver.Rows) error {
	var r gate.Request
	var revision int64
	var path, tier string
	var prompt, reused float64
	if err := rows.Scan(&r.AtNanos, &revision, &path, &r.Model, &r.GPU, &tier, &r.Link, &r.Prefix,
		&prompt, &reused, &r.Bytes, &r.ReportedQueue, &r.Flows, &r.TTFT); err != nil {
		return err
	}
	if len(h.requests) == MaxRequests {
		return fmt.Errorf("more than %d requests: hold out a shorter window, or fewer policies", MaxRequests)
	}
	r.Path, _ = schema.ParsePath(path)
	r.Tier, _ = schema.ParseTier(tier)
	r.Model, r.GPU, r.Link = h.names.one(r.Model), h.names.one(r.GPU), h.names.one(r.Link)
	r.Computed, r.Before = prompt-reused, reused
	h.requests, h.revision = append(h.requests, r), append(h.revision, revision)
	return nil
}
