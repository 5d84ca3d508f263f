package query

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/schema"
)

// maxRequests is how many requests of one id are given: an agent's trace may
// hold many.
const maxRequests = 20

// Requests gives the requests that an id names: 32 hex digits of a row or a
// trace, or a request id. None is no error.
func Requests(ctx context.Context, conn driver.Conn, id string) ([]report.Request, error) {
	keys := Question{Request: id}.keys()
	var out []report.Request
	err := rows(ctx, conn, "the request", requestSQL(keys), func(r driver.Rows) error {
		q, err := scanRequest(r)
		out = append(out, q)
		return err
	})
	if err != nil || len(out) == 0 {
		return out, err
	}
	return out, addReplays(ctx, conn, out, keys)
}

// numbers of a request, in the order in which requestSQL gives them.
func numbers(q *report.Request) []*report.Number {
	return []*report.Number{
		&q.Prompt, &q.Prefix, &q.Reused, &q.Bytes, &q.Flows, &q.Active, &q.StateAge, &q.Queue, &q.Transfer, &q.Benefit,
		&q.Taken.GPUQueue, &q.Taken.ExposedStall, &q.Taken.Restore, &q.Taken.Prefill, &q.Taken.TTFT,
	}
}

func requestSQL(keys string) string {
	f := func(columns ...string) (s string) {
		for i, c := range columns {
			if i > 0 {
				s += ", "
			}
			s += "ifNull(toFloat64(" + c + "), nan)"
		}
		return s
	}
	return `SELECT id, trace, request_id, start, toString(path), model, gpu, worker, source_worker, toString(tier), link, policy, revision,
	[` + f("tokens_prompt", "tokens_prefix", "tokens_reused", "bytes", "link_flows", "worker_active", "state_age", "transfer_queue", "transfer", "benefit",
		"gpu_queue", "exposed_stall", "restore", "prefill", "ttft") + `],
	ifNull(toInt64(chosen), -1),
	arrayFirstIndex((p, t) -> p = toString(alt_path) AND t = alt_ttft, arrayMap(p -> toString(p), candidate.path), candidate.ttft),
	arrayMap(p -> toString(p), candidate.path), candidate.worker, candidate.links, candidate.bytes,
	candidate.gpu_queue, candidate.transfer_queue, candidate.bandwidth, candidate.restore, candidate.recompute, candidate.ttft, candidate.externality, candidate.propensity
FROM requests FINAL WHERE (minute, id) GLOBAL IN ` + keys + fmt.Sprintf(" ORDER BY start LIMIT %d", maxRequests)
}

// arrays are the candidates as they are stored.
type arrays struct {
	path, worker, links []string
	bytes               []int64
	numbers             [8][]float32 // gpu_queue … propensity
}

func scanRequest(r driver.Rows) (q report.Request, err error) {
	var id, trace string
	var values []float64
	var chosen int64
	var alternative uint32
	var a arrays
	into := []any{&id, &trace, &q.RequestID, &q.At, &q.Path, &q.Model, &q.GPU, &q.Worker, &q.Source, &q.Tier, &q.Link, &q.Policy, &q.Revision,
		&values, &chosen, &alternative, &a.path, &a.worker, &a.links, &a.bytes}
	for i := range a.numbers {
		into = append(into, &a.numbers[i])
	}
	if err := r.Scan(into...); err != nil {
		return q, err
	}
	q.ID, q.Trace = hex.EncodeToString([]byte(id)), hex.EncodeToString([]byte(trace))
	for i, n := range numbers(&q) {
		*n = opt(&values[i])
	}
	for i := range a.path {
		q.Candidates = append(q.Candidates, a.candidate(i, int64(i) == chosen, i+1 == int(alternative)))
	}
	return q, nil
}

// candidate is the one of index i. An array that is shorter leaves it unknown.
func (a *arrays) candidate(i int, chosen, alternative bool) report.Candidate {
	at := func(which int) float64 {
		if i < len(a.numbers[which]) {
			return float64(a.numbers[which][i])
		}
		return math.NaN()
	}
	c := candidate{queue: at(0), transferQueue: at(1), bandwidth: at(2), restore: at(3), compute: at(4), bytes: element(a.bytes, i)}
	ttft, externality, propensity := at(5), at(6), at(7)
	out := report.Candidate{Path: a.path[i], Worker: element(a.worker, i), Link: element(a.links, i), Chosen: chosen, Alternative: alternative,
		Externality: opt(&externality), Propensity: opt(&propensity), Stages: c.timeline()}
	out.Stages.TTFT = opt(&ttft)
	return out
}

func element[T any](list []T, i int) (v T) {
	if i < len(list) {
		v = list[i]
	}
	return v
}

// addReplays reads the legs of the requests. A leg's time is carried to the state
// of its decision by the difference of the model's two predictions.
func addReplays(ctx context.Context, conn driver.Conn, all []report.Request, keys string) error {
	f := func(c string) string { return "ifNull(toFloat64(" + c + "), nan)" }
	sql := "SELECT id, toString(leg), toString(path), worker, link, start, [" + f("gpu_queue") + ", " + f("exposed_stall") + ", " + f("restore") + ", " + f("prefill") + ", " + f("ttft") + ", " +
		f("ttft + model_decision - model_replay") + "] FROM replays FINAL WHERE id GLOBAL IN (SELECT id FROM " + keys + ") ORDER BY start, trace, span"
	return rows(ctx, conn, "replays of the request", sql, func(r driver.Rows) error {
		var id string
		var v []float64
		var l report.Leg
		if err := r.Scan(&id, &l.Kind, &l.Path, &l.Worker, &l.Link, &l.At, &v); err != nil {
			return err
		}
		l.Stages = report.Timeline{GPUQueue: opt(&v[0]), ExposedStall: opt(&v[1]), Restore: opt(&v[2]), Prefill: opt(&v[3]), TTFT: opt(&v[4])}
		l.Carried = opt(&v[5])
		for i := range all {
			if all[i].ID == hex.EncodeToString([]byte(id)) {
				all[i].Replays = append(all[i].Replays, l)
			}
		}
		return nil
	})
}

// Holdings is what the tables hold of a window and beyond it: what can be chosen,
// and what is missing.
type Holdings struct {
	Links, Models []string  // of the window, whatever it is limited to
	Newest        time.Time // minute of the newest request of all; zero: there is none
	Legs          uint64    // replays of decisions of the window, by when they ran
	Documents     uint64    // coefficient documents that were published
}

// Held gives what the tables hold.
func Held(ctx context.Context, conn driver.Conn, w Window) (h Holdings, err error) {
	from, _ := w.bounds()
	var newest time.Time
	w.Link, w.Model = "", ""
	steps := []struct {
		what, sql string
		into      []any
	}{
		{"links and models", "SELECT arraySort(groupUniqArrayIf(1000)(link, link != '')), arraySort(groupUniqArrayIf(1000)(model, model != '')) FROM " + w.slices(), []any{&h.Links, &h.Models}},
		{"the newest request", "SELECT max(minute) FROM slices", []any{&newest}},
		{"how many replays there are", "SELECT count() FROM replays WHERE start >= toDateTime(" + from + ", 'UTC') AND leg = " + Quote(schema.LegRejected.String()), []any{&h.Legs}},
		{"how many documents there are", "SELECT count() FROM coefficients", []any{&h.Documents}},
	}
	for _, s := range steps {
		if err := rows(ctx, conn, s.what, s.sql, func(r driver.Rows) error { return r.Scan(s.into...) }); err != nil {
			return h, err
		}
	}
	if newest.Unix() > 0 {
		h.Newest = newest.UTC()
	}
	return h, nil
}
