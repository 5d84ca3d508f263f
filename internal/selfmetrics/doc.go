// Package selfmetrics serves what every stage tells about itself: Prometheus
// metrics at /metrics, whether the process runs at /healthz, and whether it
// can do its work at /readyz.
package selfmetrics
