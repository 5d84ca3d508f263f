package app

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// driftText is a line a path and link on which the champion has drifted.
func (c *Calibrated) driftText() string {
	var b strings.Builder
	for i := range c.Drift {
		d := &c.Drift[i]
		if !d.Found {
			continue
		}
		of := d.Path
		if d.Link != "" {
			of += " over " + d.Link
		}
		fmt.Fprintf(&b, "Drift of revision %d: %s takes %+.0f %% against what it predicts, since about %s.\n",
			c.Champion.Revision, of, 100*d.Shift, time.Unix(0, d.SinceNanos).UTC().Format(time.RFC3339))
	}
	return b.String()
}

type driftJSON struct {
	Path  string        `json:"path"`
	Link  string        `json:"link"`
	Found bool          `json:"found"`
	N     int           `json:"n"`
	Since *time.Time    `json:"since"` // from when on it is likely; null where none was found
	Shift report.Number `json:"shift"` // mean of observed by predicted TTFT since then, less 1
}

func (c *Calibrated) driftJSON() []driftJSON {
	out := []driftJSON{}
	for i := range c.Drift {
		d := &c.Drift[i]
		row := driftJSON{Path: d.Path, Link: d.Link, Found: d.Found, N: d.N, Shift: number(d.Shift)}
		if d.Found {
			since := time.Unix(0, d.SinceNanos).UTC()
			row.Since = &since
		}
		out = append(out, row)
	}
	return out
}

// CalibrateMetrics are of the calibrator's last run.
type CalibrateMetrics struct{ drift *prometheus.GaugeVec }

// NewCalibrateMetrics has no values until a run is noted.
func NewCalibrateMetrics() CalibrateMetrics {
	return CalibrateMetrics{prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kvwhatif_calibrate_drift",
		Help: "1 where the last run found that the champion has drifted; none where there were too few requests to know."}, []string{"path", "link"})}
}

// Note keeps what a run found.
func (m CalibrateMetrics) Note(c *Calibrated) {
	m.drift.Reset()
	for i := range c.Drift {
		d := &c.Drift[i]
		found := 0.0
		if d.Found {
			found = 1
		}
		m.drift.WithLabelValues(d.Path, cmp.Or(d.Link, "(none)")).Set(found)
	}
}

// Describe is of prometheus.Collector.
func (m CalibrateMetrics) Describe(to chan<- *prometheus.Desc) { m.drift.Describe(to) }

// Collect is of prometheus.Collector.
func (m CalibrateMetrics) Collect(to chan<- prometheus.Metric) { m.drift.Collect(to) }
