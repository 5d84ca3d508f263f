package alerts

import (
	"fmt"
)

// The file format of Prometheus's rules.
type (
	promFile struct {
		Groups []promGroup `yaml:"groups"`
	}
	promGroup struct {
		Name     string     `yaml:"name"`
		Interval string     `yaml:"interval"`
		Rules    []promRule `yaml:"rules"`
	}
	promRule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
)

// PrometheusRules is the file of rules for Prometheus: of what the stages' metrics
// tell. What only the tables know is in Grafana's rules.
func PrometheusRules() ([]byte, error) {
	g := promGroup{Name: "kvwhatif", Interval: short(every)}
	for _, a := range Alerts() {
		if a.PromQL == "" {
			continue
		}
		g.Rules = append(g.Rules, promRule{
			Alert: "Kvwhatif" + a.Name, Expr: a.PromQL, For: short(a.For),
			Labels:      map[string]string{"severity": string(a.Severity)},
			Annotations: map[string]string{"summary": a.Summary, "description": a.Text, "runbook_url": runbookURL + a.page() + ".md"},
		})
	}
	raw, err := encode(promFile{Groups: []promGroup{g}})
	if err != nil {
		return nil, fmt.Errorf("render rules for Prometheus: %w", err)
	}
	return raw, nil
}
