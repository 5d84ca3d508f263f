package serve

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	errors    *prometheus.CounterVec // by step: poll, prices, status
	published prometheus.Counter
	revision  prometheus.GaugeFunc
	expires   prometheus.GaugeFunc
	waiters   prometheus.GaugeFunc
	applied   prometheus.GaugeFunc
	refused   prometheus.GaugeFunc
}

func newMetrics(s *Server) *metrics {
	gauge := func(name, help string, value func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kvwhatif_serve_" + name, Help: help}, value)
	}
	document := func(value func(revision, expires int64) int64) func() float64 {
		return func() float64 {
			held, _ := s.now()
			if held == nil {
				return 0
			}
			return float64(value(held.Document.Revision, held.Document.Expires))
		}
	}
	coordinators := func(state string, applied bool) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kvwhatif_serve_coordinators", ConstLabels: prometheus.Labels{"state": state},
			Help: "Coordinators that were heard within a day, by what their last word on a document was."},
			func() float64 { return float64(s.statuses.count(applied, s.cfg.Now().Add(-lastWord))) })
	}
	return &metrics{
		applied: coordinators("applied", true),
		refused: coordinators("refused", false),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvwhatif_serve_errors_total",
			Help: "Times that a step failed: poll of the store, prices, or statuses."}, []string{"step"}),
		published: prometheus.NewCounter(prometheus.CounterOpts{Name: "kvwhatif_serve_price_revisions_total", Help: "Revisions that were published for their prices."}),
		revision:  gauge("revision", "Revision of the document that is given out; 0: none.", document(func(r, _ int64) int64 { return r })),
		expires:   gauge("expires_timestamp_seconds", "When that document expires, Unix seconds; 0: none.", document(func(_, e int64) int64 { return e / 1e9 })),
		waiters:   gauge("waiters", "Long polls and event streams that are open.", func() float64 { return float64(len(s.waiters)) }),
	}
}

func (m *metrics) failed(step string, err error) {
	if err != nil {
		m.errors.WithLabelValues(step).Inc()
	}
}

func (s *Server) collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.errors, m.published, m.revision, m.expires, m.waiters, m.applied, m.refused}
}

// Describe is of prometheus.Collector: register the server itself.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.collectors() {
		c.Describe(ch)
	}
}

// Collect is of prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.collectors() {
		c.Collect(ch)
	}
}
