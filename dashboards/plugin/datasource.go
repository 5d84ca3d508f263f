package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/instancemgmt"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
)

// parallel queries of one panel that run at once.
const parallel = 4

// Datasource is one data source of Grafana: a pool of connections to one
// ClickHouse. It only reads.
type Datasource struct {
	settings Settings
	conn     driver.Conn
	broken   error // of its settings; the connection is nil then

	mu       sync.Mutex
	readonly int // of the user; -1 until it was asked
}

// New makes a data source of the settings that Grafana hands over. It makes one of
// settings that can not be too, so that the health check can say what is wrong.
func New(_ context.Context, s backend.DataSourceInstanceSettings) (instancemgmt.Instance, error) {
	d := &Datasource{readonly: -1}
	var options *ch.Options
	if d.settings, d.broken = Load(s); d.broken == nil {
		options, d.broken = d.settings.options()
	}
	if d.broken == nil {
		d.conn, d.broken = ch.Open(options)
	}
	return d, nil
}

// Dispose closes the connections; Grafana calls it where settings changed.
func (d *Datasource) Dispose() {
	if d.conn != nil {
		d.conn.Close()
	}
}

// QueryData answers the queries of a panel, each for itself: one that fails leaves
// the others.
func (d *Datasource) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	out := backend.NewQueryDataResponse()
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, q := range req.Queries {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			response := d.one(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			out.Responses[q.RefID] = response
		})
	}
	all.Wait()
	return out, nil
}

// one answers one query.
func (d *Datasource) one(ctx context.Context, asked backend.DataQuery) backend.DataResponse {
	if d.broken != nil {
		return backend.ErrDataResponse(backend.StatusBadRequest, d.broken.Error())
	}
	q, err := query.Parse(asked.JSON)
	if err != nil {
		return backend.ErrDataResponse(backend.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, d.settings.timeout())
	defer cancel()
	frames, err := d.answer(ctx, q, asked)
	if err != nil {
		return failure(err)
	}
	for _, f := range frames {
		f.RefID = asked.RefID
	}
	return backend.DataResponse{Status: backend.StatusOK, Frames: frames}
}

// failure is an error with its place: a statement that is refused is the user's, the
// rest is ClickHouse's.
func failure(err error) backend.DataResponse {
	status := backend.StatusBadGateway
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return backend.ErrDataResponse(backend.StatusBadRequest, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		status = backend.StatusTimeout
	case codeOf(err) != 0:
		status = backend.StatusBadRequest
	}
	return backend.ErrDataResponseWithSource(status, backend.ErrorSourceDownstream, explain(err))
}

// step is the distance of two points of a series: what Grafana asks for, and no
// more points than it can show.
func step(asked backend.DataQuery) time.Duration {
	s := asked.Interval
	if asked.MaxDataPoints > 0 {
		s = max(s, asked.TimeRange.Duration()/time.Duration(asked.MaxDataPoints))
	}
	return (max(s, time.Minute) + time.Minute - 1).Truncate(time.Minute)
}

// limits are the settings of every query. A user of readonly 0 is held to reading.
func (d *Datasource) limits(ctx context.Context) (context.Context, error) {
	level, err := d.level(ctx)
	if err != nil {
		return nil, err
	}
	if level == 1 {
		return nil, &refusal{"the ClickHouse user has readonly = 1, which forbids even limits on a query: give it readonly = 2, which reads as little and lets queries be limited"}
	}
	settings := ch.Settings{
		"max_execution_time": d.settings.Timeout, "max_result_rows": d.settings.RowLimit + 1, "result_overflow_mode": "break",
		"distributed_product_mode": "global", "do_not_merge_across_partitions_select_final": 1,
	}
	if level == 0 {
		settings["readonly"] = 2
	}
	return ch.Context(ctx, ch.WithSettings(settings)), nil
}

// level is the user's own setting of readonly, asked once.
func (d *Datasource) level(ctx context.Context) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readonly >= 0 {
		return d.readonly, nil
	}
	var level uint8
	if err := d.conn.QueryRow(ctx, "SELECT toUInt8(getSetting('readonly'))").Scan(&level); err != nil {
		return 0, fmt.Errorf("ask for the rights of the user: %w", err)
	}
	d.readonly = int(level)
	return d.readonly, nil
}
