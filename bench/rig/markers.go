package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/corpus"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
)

// pollEvery is how often markers are looked for: no delay is known better.
const pollEvery = 25 * time.Millisecond

// Markers measures how long it takes from when a request is accepted until it is
// in the table requests.
type Markers struct {
	requests *corpus.Requests
	every    time.Duration // between two markers

	mu      sync.Mutex
	last    time.Time
	waiting map[schema.RowID]time.Time // accepted when
	delays  []time.Duration
}

// NewMarkers takes a marker so often.
func NewMarkers(r *corpus.Requests, every time.Duration) *Markers {
	return &Markers{requests: r, every: every, waiting: map[schema.RowID]time.Time{}}
}

// Accepted notes a request, of which the first span is a marker if it is time for
// one.
func (m *Markers) Accepted(n uint64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Sub(m.last) < m.every {
		return
	}
	m.last = at
	m.waiting[schema.NewRowID(m.requests.IDs(n, 0))] = at
}

// Watch looks for markers until ctx ends.
func (m *Markers) Watch(ctx context.Context, conn *clickhouse.Conn) error {
	for ticker := time.NewTicker(pollEvery); ; {
		if err := m.look(ctx, conn); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look asks for all that wait, in one query.
func (m *Markers) look(ctx context.Context, conn *clickhouse.Conn) error {
	ids := m.pending()
	if len(ids) == 0 {
		return nil
	}
	query := fmt.Sprintf("SELECT DISTINCT hex(id) FROM requests WHERE minute >= toStartOfMinute(now() - 120) AND id IN (%s)", strings.Join(ids, ","))
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return fmt.Errorf("look for markers: %w", err)
	}
	defer rows.Close()
	at := time.Now()
	for rows.Next() {
		var hex string
		if err := rows.Scan(&hex); err != nil {
			return err
		}
		m.seen(strings.ToLower(hex), at)
	}
	return rows.Err()
}

func (m *Markers) pending() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.waiting {
		ids = append(ids, "unhex('"+id.String()+"')")
	}
	return ids
}

func (m *Markers) seen(hex string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, accepted := range m.waiting {
		if id.String() == hex {
			m.delays = append(m.delays, at.Sub(accepted))
			delete(m.waiting, id)
		}
	}
}

// Waiting is how many markers are not seen yet.
func (m *Markers) Waiting() int { return len(m.pending()) }

// Quantiles gives delays, of all that were seen, and how many that were.
func (m *Markers) Quantiles(qs ...float64) (out []time.Duration, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.delays)
	for _, q := range qs {
		if len(m.delays) > 0 {
			out = append(out, m.delays[min(len(m.delays)-1, int(q*float64(len(m.delays))))])
		} else {
			out = append(out, 0)
		}
	}
	return out, len(m.delays)
}
