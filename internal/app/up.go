package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/calibrate/read"
	"github.com/kvwhatif/kvwhatif/calibrate/serve"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// Up runs every stage in this process, on embedded engines where the settings
// name no others, until ctx ends.
func Up(ctx context.Context, s *Settings, log *slog.Logger, announce Announce) (err error) {
	d, err := OpenDir(s.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b, err := OpenEmbedded(ctx, d, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p := newProcess(ctx, "up", log)
	_, at, err := p.startAll(d, b, s)
	if err != nil {
		return p.fail(err)
	}
	announce(at)
	return p.wait()
}

// allStages is what one process runs.
type allStages struct {
	load    *loadStage
	collect *collectStage
	server  *serve.Server
}

// startAll starts the stages in the order in which they need each other.
func (p *process) startAll(d *Dir, b *Backend, s *Settings) (st *allStages, at Endpoints, err error) {
	at = Endpoints{Dir: d.Path, Kafka: b.Cluster.String(), ClickHouse: b.ReaderDSN}
	st = &allStages{}
	if st.load, err = newLoad(s.Load, b, p.registry, p.log); err != nil {
		return nil, at, err
	}
	load := st.load // st is nil after a failure below
	p.group.Go(func() error { return load.run(p.ctx) })
	p.health.Add("clickhouse", b.Conn.Ping)
	if b.database != nil {
		if err = p.registry.Register(restarts(b.database)); err != nil {
			return nil, at, err
		}
	}
	if err = s.openDoor(p.log); err != nil {
		return nil, at, err
	}
	if st.collect, err = startCollect(p.ctx, s.Collect, b.Cluster, p.registry, p.log); err != nil {
		return nil, at, err
	}
	p.watch(st.collect)
	at.GRPC, at.HTTP = st.collect.GRPCAddr(), st.collect.HTTPAddr()
	if st.server, err = newServer(b.Conn, s, read.Filter{Policies: s.Serve.Policies}, p.log); err != nil {
		return nil, at, err
	}
	if at.Coefficients, err = p.startServe(st.server, s); err != nil {
		return nil, at, err
	}
	if at.Page, err = p.startPage(b, s, at.HTTP); err != nil {
		return nil, at, err
	}
	at.Metrics, err = p.listen(s.Listen)
	return st, at, err
}

// restarts counts how often the embedded database died and was started again.
func restarts(e *clickhouse.Embedded) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "kvwhatif_clickhouse_restarts_total",
		Help: "Times that the embedded ClickHouse died and was started again."}, func() float64 { return float64(e.Restarts()) })
}
