package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
)

// joinWithin is how far a part's start may be from that of its request at most.
const joinWithin = 24 * time.Hour

// place is the key of a row of waiting.
type place struct {
	day   time.Time
	trace string
	span  uint64
}

// waiting gives a page of parts that wait, in the order of their keys.
func (s *store) waiting(ctx context.Context, after place, since time.Time, limit int) ([]*waitingPart, error) {
	query := fmt.Sprintf(`SELECT day, trace, span, part, arrived, version FROM waiting FINAL
WHERE (day, trace, span) > (toDate(%d), toFixedString(unhex('%x'), 16), %d) AND arrived >= fromUnixTimestamp64Milli(%d)
ORDER BY day, trace, span LIMIT %d`, dayNumber(after.nanos()), after.trace, after.span, since.UnixMilli(), limit)
	rows, err := s.conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read waiting parts: %w", clickhouse.Classify(err))
	}
	defer rows.Close()
	var parts []*waitingPart
	for rows.Next() {
		w := &waitingPart{}
		var frame string
		if err := rows.Scan(&w.place.day, &w.place.trace, &w.place.span, &frame, &w.arrived, &w.version); err != nil {
			return nil, fmt.Errorf("read waiting parts: %w", clickhouse.Classify(err))
		}
		w.frame = []byte(frame)
		if err := w.decode(); err != nil {
			return nil, permanent{err}
		}
		parts = append(parts, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read waiting parts: %w", clickhouse.Classify(err))
	}
	return parts, nil
}

func (p place) nanos() int64 {
	if p.day.IsZero() {
		return 0
	}
	return p.day.UnixNano()
}

// found is a row of requests that parts may join.
type found struct {
	anchor
	start    int64 // Unix nanoseconds
	spans    []uint64
	requests []string // request ids of the contract's and the engine's span
}

// find gives the rows that the parts may belong to: those of their traces and
// of their request ids, around their time. Orphans are not among them.
func (s *store) find(ctx context.Context, parts []*waitingPart, within time.Duration) ([]*found, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	traces, requests := map[string]bool{}, map[string]bool{}
	first, last := parts[0].part.StartNanos, parts[0].part.StartNanos
	for _, w := range parts {
		traces[fmt.Sprintf("unhex('%x')", w.part.Trace[:])] = true
		if w.part.RequestID != "" {
			requests[w.part.RequestID] = true
		}
		first, last = min(first, w.part.StartNanos), max(last, w.part.StartNanos)
	}
	where := "trace IN (" + strings.Join(keys(traces), ", ") + ")"
	var args []any
	if len(requests) > 0 {
		where += " OR request_id IN (?) OR engine_request_id IN (?)"
		args = []any{keys(requests), keys(requests)}
	}
	query := fmt.Sprintf(`SELECT toInt64(toUnixTimestamp(minute)), id, any(trace), toUnixTimestamp64Nano(greatest(max(start), max(engine_start))),
groupUniqArrayArray(spans), [max(request_id), max(engine_request_id)]
FROM requests WHERE (minute, id) GLOBAL IN (SELECT minute, id FROM requests WHERE (%s) AND minute BETWEEN %d AND %d)
GROUP BY minute, id HAVING max(toInt8(kind)) > %d`,
		where, max(0, first-int64(within))/1e9, last/1e9+int64(within/time.Second), rowOrphan)
	rows, err := s.conn.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("look for requests of waiting parts: %w", clickhouse.Classify(err))
	}
	defer rows.Close()
	var all []*found
	for rows.Next() {
		f := &found{}
		var id, trace string
		if err := rows.Scan(&f.minute, &id, &trace, &f.start, &f.spans, &f.requests); err != nil {
			return nil, fmt.Errorf("look for requests of waiting parts: %w", clickhouse.Classify(err))
		}
		copy(f.id[:], id)
		copy(f.trace[:], trace)
		all = append(all, f)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for requests of waiting parts: %w", clickhouse.Classify(err))
	}
	return all, nil
}

func keys(m map[string]bool) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// lookup finds the row that a part belongs to.
type lookup struct {
	byTrace   map[schema.TraceID][]*found
	byRequest map[string][]*found
}

func newLookup(rows []*found) *lookup {
	l := &lookup{byTrace: map[schema.TraceID][]*found{}, byRequest: map[string][]*found{}}
	for _, f := range rows {
		l.byTrace[f.trace] = append(l.byTrace[f.trace], f)
		for _, r := range f.requests {
			l.named(r, f)
		}
	}
	return l
}

func (l *lookup) named(request string, f *found) {
	if request != "" && !slices.Contains(l.byRequest[request], f) {
		l.byRequest[request] = append(l.byRequest[request], f)
	}
}

// find goes by parent span, then by request id where one row has it, then,
// with byTrace, by trace where that has one row. It is nil where none fits.
func (l *lookup) find(p *schema.Part, byTrace bool) *found {
	same := l.byTrace[p.Trace]
	for _, f := range same {
		if p.Parent != (schema.SpanID{}) && slices.Contains(f.spans, p.Parent.Uint64()) {
			return f
		}
	}
	var near []*found
	for _, f := range l.byRequest[p.RequestID] {
		if d := f.start - p.StartNanos; d <= int64(joinWithin) && -d <= int64(joinWithin) {
			near = append(near, f)
		}
	}
	switch {
	case len(near) == 1:
		return near[0]
	case len(near) == 0 && byTrace && len(same) == 1:
		return same[0]
	}
	return nil
}

// extend notes that the part has joined the row, for those that hang on it.
func (l *lookup) extend(f *found, p *schema.Part) {
	f.spans = append(f.spans, p.Span.Uint64())
	l.named(p.RequestID, f)
}
