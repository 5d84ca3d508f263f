package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/schema"
)

// replayMetrics are a runner's counts as Prometheus reads them.
type replayMetrics struct{ runner *replay.Runner }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kvwhatif_replay_"+name, help, labels, nil)
}

var (
	descDecisions  = desc("decisions_total", "Decisions read.")
	descIneligible = desc("ineligible_total", "Decisions that can not be replayed, by why.", "why")
	descDrawn      = desc("legs_drawn_total", "Legs drawn.")
	descExecuted   = desc("legs_executed_total", "Legs with a result.")
	descEmitted    = desc("legs_emitted_total", "Results that the collector has accepted.")
	descDropped    = desc("legs_dropped_total", "Legs that did not run, by why.", "why")
	descWaiting    = desc("legs_waiting", "Legs that wait for budget.")
	descOldest     = desc("oldest_wait_seconds", "Age of the oldest decision that waits; 0: none waits.")
	descKilled     = desc("killed", "1 while a kill switch holds all replays.")
	descUnderWay   = desc("legs_under_way", "Legs that the executor runs.")
	descGated      = desc("legs_gated", "Legs that wait for an idle engine.")
	descIntended   = desc("completion_intended", "Legs drawn, by size bucket of the prefix and kind, over restarts.", "size", "leg")
	descCompleted  = desc("completion_executed", "Of them, legs with a result.", "size", "leg")
	descBreaker    = desc("breaker_open", "1 while the circuit breaker holds replays, 0.5 while it tries one at a time.")
	descOpened     = desc("breaker_opened_total", "How often the circuit breaker opened.")
	descJudges     = desc("breaker_judges", "1 where the last look of the circuit breaker had requests enough.")
	descP99        = desc("production_p99_seconds", "p99 TTFT of production that the circuit breaker compares; NaN: not known.", "replays")
	descGPU        = desc("gpu_seconds", "GPU-seconds, over restarts, of production's requests as seen and of legs as charged: a charge is settled after its leg, so it may fall.", "of")
	descBytes      = desc("bytes", "Bytes moved, likewise.", "of")
)

// Describe is of prometheus.Collector.
func (m replayMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descDecisions, descIneligible, descDrawn, descExecuted, descEmitted, descDropped, descWaiting, descOldest, descKilled, descGPU, descBytes,
		descUnderWay, descGated, descIntended, descCompleted, descBreaker, descOpened, descJudges, descP99,
	} {
		ch <- d
	}
}

// Collect is of prometheus.Collector.
func (m replayMetrics) Collect(ch chan<- prometheus.Metric) {
	st := m.runner.Stats()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	send(descDecisions, prometheus.CounterValue, float64(st.Decisions))
	send(descDrawn, prometheus.CounterValue, float64(st.Drawn))
	send(descExecuted, prometheus.CounterValue, float64(st.Executed))
	send(descEmitted, prometheus.CounterValue, float64(st.Emitted))
	for why, n := range st.Ineligible {
		send(descIneligible, prometheus.CounterValue, float64(n), why)
	}
	for why, n := range st.Dropped {
		send(descDropped, prometheus.CounterValue, float64(n), why)
	}
	send(descWaiting, prometheus.GaugeValue, float64(st.Waiting))
	oldest := 0.0
	if st.OldestWait > 0 {
		oldest = time.Since(time.Unix(0, st.OldestWait)).Seconds()
	}
	send(descOldest, prometheus.GaugeValue, oldest)
	killed := 0.0
	if st.Killed != "" {
		killed = 1
	}
	send(descKilled, prometheus.GaugeValue, killed)
	send(descGPU, prometheus.GaugeValue, st.Production.GPUSeconds, "production")
	send(descGPU, prometheus.GaugeValue, st.Legs.GPUSeconds, "legs")
	send(descBytes, prometheus.GaugeValue, st.Production.Bytes, "production")
	send(descBytes, prometheus.GaugeValue, st.Legs.Bytes, "legs")
	send(descUnderWay, prometheus.GaugeValue, float64(st.UnderWay))
	send(descGated, prometheus.GaugeValue, float64(st.Gated))
	for _, t := range st.BySize {
		size := "unknown"
		if t.Size >= 0 {
			size = schema.SizeBucketName(t.Size)
		}
		send(descIntended, prometheus.GaugeValue, float64(t.Intended), size, t.Leg)
		send(descCompleted, prometheus.GaugeValue, float64(t.Executed), size, t.Leg)
	}
	m.breaker(send, &st.Breaker)
}

func (m replayMetrics) breaker(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string), b *replay.Breaker) {
	if !b.On {
		return
	}
	send(descBreaker, prometheus.GaugeValue, map[budget.Phase]float64{budget.Open: 1, budget.Trial: 0.5}[b.Phase])
	send(descOpened, prometheus.CounterValue, float64(b.Opened))
	judges := 0.0
	if b.Judges {
		judges = 1
	}
	send(descJudges, prometheus.GaugeValue, judges)
	send(descP99, prometheus.GaugeValue, b.P99, "beside")
	send(descP99, prometheus.GaugeValue, b.Baseline, "away")
}
