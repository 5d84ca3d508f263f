package otlp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/collector/extract"
)

// metrics are the receiver's own.
type metrics struct {
	spans              *prometheus.CounterVec // by result: accepted, ignored
	rejected           *prometheus.CounterVec // by reason
	requests           *prometheus.CounterVec // by protocol and code
	connectionsRefused *prometheus.CounterVec // by protocol
	inFlight           prometheus.GaugeFunc
}

func newMetrics(b *budget) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvwhatif_otlp_" + name, Help: help}, labels)
	}
	m := &metrics{
		spans:              vec("spans_total", "Spans of acknowledged requests: accepted, or ignored because no adapter knows them.", "result"),
		rejected:           vec("spans_rejected_total", "Spans that became dead letters, by class of reason.", "reason"),
		requests:           vec("requests_total", "Requests by protocol and the code that they were answered with.", "protocol", "code"),
		connectionsRefused: vec("connections_refused_total", "Connections closed because max_connections were open: idle ones, or the new one where none was.", "protocol"),
		inFlight: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kvwhatif_otlp_in_flight_bytes",
			Help: "Bytes reserved for requests in memory."}, func() float64 { return float64(b.used.Load()) }),
	}
	for _, code := range extract.Codes {
		m.rejected.WithLabelValues(string(code)) // 0 from the start: an increase from nothing is none to Prometheus
	}
	return m
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.spans, m.rejected, m.requests, m.connectionsRefused, m.inFlight}
}

// Describe is of prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect is of prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

// count counts an acknowledged request.
func (m *metrics) count(r *extract.Result) {
	m.spans.WithLabelValues("accepted").Add(float64(r.Spans - r.Ignored - len(r.Rejected)))
	m.spans.WithLabelValues("ignored").Add(float64(r.Ignored))
	for i := range r.Rejected {
		m.rejected.WithLabelValues(string(r.Rejected[i].Code)).Inc()
	}
}

func (m *metrics) answered(p protocol, code string) {
	m.requests.WithLabelValues(string(p), code).Inc()
}
