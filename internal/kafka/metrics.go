package kafka

import "github.com/prometheus/client_golang/prometheus"

// readerMetrics is what a Reader counts.
type readerMetrics struct {
	lost, rewinds, failures prometheus.Counter
	missing                 prometheus.Gauge
}

func newReaderMetrics(topic, group string) *readerMetrics {
	labels := prometheus.Labels{"topic": topic, "group": group}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
	}
	return &readerMetrics{
		lost:     counter("kvwhatif_kafka_lost_messages_total", "Messages that Kafka deleted before they were read: retention is too short."),
		rewinds:  counter("kvwhatif_kafka_rewinds_total", "Partitions read from their oldest message again, because they ended before what was read of them."),
		failures: counter("kvwhatif_kafka_fetch_failures_total", "Fetches that failed, and were tried again."),
		missing: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kvwhatif_kafka_topic_missing",
			Help: "1 while the topic is not there.", ConstLabels: labels}),
	}
}

func (m *readerMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.lost, m.rewinds, m.failures, m.missing}
}

// Describe implements prometheus.Collector.
func (r *Reader) Describe(to chan<- *prometheus.Desc) {
	for _, c := range r.metrics.all() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (r *Reader) Collect(to chan<- prometheus.Metric) {
	for _, c := range r.metrics.all() {
		c.Collect(to)
	}
}
