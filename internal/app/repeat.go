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
// It serves metrics and health where the settings say so.
func Repeat(ctx context.Context, s *Settings, name string, every time.Duration, log *slog.Logger, job func(context.Context) error) error {
	p := newProcess(ctx, name, log)
	runs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kvwhatif_runs_total", Help: "Runs of the job, by outcome.",
	}, []string{"outcome"})
	last := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kvwhatif_last_success_timestamp_seconds", Help: "When the job last ended without an error.",
	})
	for _, c := range []prometheus.Collector{runs, last} {
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
				runs.WithLabelValues("done").Inc()
				last.SetToCurrentTime()
			} else if p.ctx.Err() == nil {
				runs.WithLabelValues("failed").Inc()
				log.Error(name+" failed, and is tried again", "in", every, "error", err)
			}
			retry.Pause(p.ctx, jittered(every))
		}
		return nil
	})
	return p.wait()
}

// jittered is every, up to a tenth longer or shorter, so that many processes that
// were started together do not stay together.
func jittered(every time.Duration) time.Duration {
	return every + time.Duration((rand.Float64()-0.5)*0.2*float64(every))
}
