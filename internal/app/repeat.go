package app

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/internal/retry"
)

// Repeat runs a job at once and then again every so often, with up to a tenth of
// jitter, until ctx ends. A run that fails is logged, and the next one tries again.
// It serves metrics (more: the job's own) and health where the settings say so.
func Repeat(ctx context.Context, s *Settings, name string, every time.Duration, log *slog.Logger, job func(context.Context) error, more ...prometheus.Collector) error {
	p := newProcess(ctx, name, log)
	m := newJobMetrics(name, every)
	for _, c := range append(more, m) {
		if err := p.registry.Register(c); err != nil {
			return fmt.Errorf("metrics of %s: %w", name, err)
		}
	}
	if _, err := p.listen(s.Listen); err != nil {
		return err
	}
	p.group.Go(func() error {
		for p.ctx.Err() == nil {
			if err := job(p.ctx); err == nil {
				m.runs.WithLabelValues("done").Inc()
				m.last.SetToCurrentTime()
			} else if p.ctx.Err() == nil {
				m.runs.WithLabelValues("failed").Inc()
				log.Error(name+" failed, and is tried again", "in", every, "error", err)
			}
			retry.Pause(p.ctx, jittered(every))
		}
		return nil
	})
	return p.wait()
}

// jobMetrics are of a job that is repeated. Each has its name as label stage.
type jobMetrics struct {
	runs                  *prometheus.CounterVec
	last, started, period prometheus.Gauge
}

func newJobMetrics(name string, every time.Duration) jobMetrics {
	labels := prometheus.Labels{"stage": name}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	}
	m := jobMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvwhatif_runs_total", Help: "Runs of the job, by outcome.", ConstLabels: labels,
		}, []string{"outcome"}),
		last:    gauge("kvwhatif_last_success_timestamp_seconds", "When the job last ended without an error; 0: not yet."),
		started: gauge("kvwhatif_started_timestamp_seconds", "When the job was first run by this process."),
		period:  gauge("kvwhatif_run_interval_seconds", "How often the job is run."),
	}
	m.started.SetToCurrentTime()
	m.period.Set(every.Seconds())
	return m
}

func (m jobMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.runs, m.last, m.started, m.period}
}

// Describe is of prometheus.Collector.
func (m jobMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

// Collect is of prometheus.Collector.
func (m jobMetrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}

// jittered is every, up to a tenth longer or shorter, so that many processes that
// were started together do not stay together.
func jittered(every time.Duration) time.Duration {
	return every + time.Duration((rand.Float64()-0.5)*0.2*float64(every))
}
