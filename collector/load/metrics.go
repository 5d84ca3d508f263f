package load

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/schema"
)

type metrics struct {
	parts     [schema.KindReplay + 1]prometheus.Counter
	dead      *prometheus.CounterVec
	rows      *prometheus.CounterVec
	legs      prometheus.Counter
	bare      prometheus.Counter
	waited    prometheus.Counter
	joined    prometheus.Counter
	orphans   prometheus.Counter
	insert    prometheus.Histogram
	recompute prometheus.Histogram
	remade    prometheus.Counter
	pending   prometheus.Gauge
	retries   *prometheus.CounterVec
	next      *prometheus.GaugeVec
	lag       *prometheus.GaugeVec
}

// newMetrics registers the metrics; a second load in the process shares those
// of the first.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	r := register{reg: reg}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "kvwhatif_load_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvwhatif_load_" + name, Help: help}, []string{label})
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kvwhatif_load_" + name, Help: help}, []string{"partition"})
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kvwhatif_load_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)})
	}
	m := &metrics{
		dead:      add(&r, vec("dead_letters_total", "Parts or messages that could not be read, by reason.", "reason")),
		rows:      add(&r, vec("rows_total", "Rows inserted, by table.", "table")),
		legs:      add(&r, counter("leg_spans_total", "Spans of replay legs that were kept out of requests.")),
		bare:      add(&r, counter("without_outcome_total", "Decisions that came without a TTFT. slices.n less slices.n_ttft is how many have none.")),
		waited:    add(&r, counter("waiting_total", "Parts whose request was not there when they came.")),
		joined:    add(&r, counter("joined_total", "Waiting parts that found their request.")),
		orphans:   add(&r, counter("orphans_total", "Waiting parts that became rows of their own.")),
		insert:    add(&r, seconds("insert_seconds", "Time of one insert.")),
		recompute: add(&r, seconds("recompute_seconds", "Time of one recomputation of rollups.")),
		remade:    add(&r, counter("minutes_recomputed_total", "Minutes of rollups made again.")),
		pending:   add(&r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "kvwhatif_load_minutes_pending", Help: "Minutes that wait to be made again."})),
		retries:   add(&r, vec("retries_total", "Failures that were tried again, by step.", "step")),
		next:      add(&r, gauges("position", "Offset that is inserted next.")),
		lag:       add(&r, gauges("lag", "Messages behind the end of the partition.")),
	}
	for _, reason := range []string{deadVersion, deadFraming, deadDecode, deadInvalid, deadConflict, deadOld} {
		m.dead.WithLabelValues(reason) // 0 from the start: an increase from nothing is none to Prometheus
	}
	kinds := add(&r, vec("parts_total", "Parts read, by kind.", "kind"))
	for kind, name := range map[schema.Kind]string{0: "none", schema.KindContract: "contract", schema.KindEngine: "engine",
		schema.KindTransfer: "transfer", schema.KindReplay: "replay"} {
		m.parts[kind] = kinds.WithLabelValues(name)
	}
	return m, r.err
}

// register keeps the first error.
type register struct {
	reg prometheus.Registerer
	err error
}

func add[C prometheus.Collector](r *register, c C) C {
	if r.reg == nil {
		return c
	}
	err := r.reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if same, ok := already.ExistingCollector.(C); ok {
			return same
		}
	}
	if err != nil && r.err == nil {
		r.err = err
	}
	return c
}

func partitionLabel(p int) string { return strconv.Itoa(p) }
