package read

import (
	"context"
	_ "embed"
	"fmt"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
)

//go:embed queue.sql
var queueSQL string

// logged is a GPU queue as a coordinator logged it, under the law of its document.
type logged struct {
	revision        int64
	queue, observed float64 // seconds
	at              int64   // Unix nanoseconds
}

// queueLaw is what a document made of a reported queue: bias + slope·reported, at
// least 0; nothing where it had not fitted one.
type queueLaw struct {
	fitted      bool
	bias, slope float64
}

// reported is the worker's word behind a logged queue; ok is false where the law
// does not let it be told.
func (l queueLaw) reported(queue float64) (float64, bool) {
	switch {
	case !l.fitted:
		return queue, true
	case l.slope <= 0, queue == 0 && l.bias < 0, queue < l.bias:
		return 0, false
	}
	return (queue - l.bias) / l.slope, true
}

func (r *reader) revisions() []int64 {
	all := make([]int64, len(r.queues))
	for i, q := range r.queues {
		all[i] = q.revision
	}
	return documents(all)
}

// documents gives each revision once, without that of no document.
func documents(revisions []int64) []int64 {
	seen, out := map[int64]bool{0: true}, []int64{}
	for _, v := range revisions {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// queueLaws gives the law of each revision that there is a document of. A
// coordinator logs the queue that it decided by, which its document had corrected
// already; a law fitted to that would correct what is corrected, and be gone at
// the next fit.
func queueLaws(ctx context.Context, conn driver.Conn, revisions []int64) (map[int64]queueLaw, error) {
	laws := map[int64]queueLaw{0: {}}
	if len(revisions) == 0 {
		return laws, nil
	}
	rows, err := conn.Query(ctx, queueSQL, ch.Named("revisions", revisions))
	err = each(rows, err, func(rows driver.Rows) error {
		var revision, n int64
		var l queueLaw
		if err := rows.Scan(&revision, &n, &l.bias, &l.slope); err != nil {
			return err
		}
		l.fitted = n > 0
		laws[revision] = l
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the queue laws that requests were decided by: %w", err)
	}
	return laws, nil
}

// unlaw adds the queues as reported. One decided by a document that is gone, or
// that can not be told, says nothing and is left out.
func (r *reader) unlaw(laws map[int64]queueLaw) {
	for _, q := range r.queues {
		law, known := laws[q.revision]
		if reported, ok := law.reported(q.queue); known && ok {
			r.out.Queue = append(r.out.Queue, fit.QueueObs{Reported: reported, Observed: q.observed, At: q.at})
		}
	}
}
