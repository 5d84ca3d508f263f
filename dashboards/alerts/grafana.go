package alerts

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// flavour is a datasource that rules are provisioned for.
type flavour struct {
	name string // of the directory
	uid  string // of the datasource
	asks func(Alert) (map[string]any, bool)
}

// flavours are kvwhatif's own plugin, Grafana Labs' for ClickHouse, and Prometheus.
var flavours = []flavour{
	{"kvwhatif", "kvwhatif", func(a Alert) (map[string]any, bool) {
		return map[string]any{"refId": "A", "queryType": "sql", "view": "table", "sql": a.At("now64(3)")}, a.SQL != ""
	}},
	{"clickhouse", "kvwhatif", func(a Alert) (map[string]any, bool) {
		return map[string]any{"refId": "A", "editorType": "sql", "queryType": "table", "format": 1, "rawSql": a.At("now64(3)")}, a.SQL != ""
	}},
	{"prometheus", "prometheus", func(a Alert) (map[string]any, bool) {
		return map[string]any{"refId": "A", "expr": a.PromQL, "instant": true, "range": false}, a.PromQL != ""
	}},
}

// The file format of Grafana's alerting provisioning.
type (
	provisioned struct {
		APIVersion int     `yaml:"apiVersion"`
		Groups     []group `yaml:"groups"`
	}
	group struct {
		OrgID    int    `yaml:"orgId"`
		Name     string `yaml:"name"`
		Folder   string `yaml:"folder"`
		Interval string `yaml:"interval"`
		Rules    []rule `yaml:"rules"`
	}
	rule struct {
		UID          string            `yaml:"uid"`
		Title        string            `yaml:"title"`
		Condition    string            `yaml:"condition"`
		Data         []query           `yaml:"data"`
		NoDataState  string            `yaml:"noDataState"`
		ExecErrState string            `yaml:"execErrState"`
		For          string            `yaml:"for"`
		Annotations  map[string]string `yaml:"annotations"`
		Labels       map[string]string `yaml:"labels"`
		IsPaused     bool              `yaml:"isPaused"`
	}
	query struct {
		RefID             string         `yaml:"refId"`
		RelativeTimeRange map[string]int `yaml:"relativeTimeRange"`
		DatasourceUID     string         `yaml:"datasourceUid"`
		Model             map[string]any `yaml:"model"`
	}
)

// every is how often rules are evaluated.
const every = time.Minute

// Provisioning gives the files of rules for Grafana, by path.
func Provisioning() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, f := range flavours {
		g := group{OrgID: 1, Name: "kvwhatif " + f.name, Folder: "kvwhatif", Interval: short(every)}
		for _, a := range Alerts() {
			if model, there := f.asks(a); there {
				g.Rules = append(g.Rules, f.rule(a, model))
			}
		}
		raw, err := encode(provisioned{APIVersion: 1, Groups: []group{g}})
		if err != nil {
			return nil, fmt.Errorf("render alert rules for %s: %w", f.name, err)
		}
		out[f.name+"/kvwhatif.yaml"] = raw
	}
	return out, nil
}

func (f flavour) rule(a Alert, model map[string]any) rule {
	r := rule{
		UID: "kvwhatif-" + strings.ToLower(a.Name), Title: a.Name, Condition: "C", For: short(a.For),
		NoDataState: "NoData", ExecErrState: "Error", // unknown is not OK
		Annotations: map[string]string{"summary": a.Summary, "description": a.Text, "runbook_url": runbookURL + a.page() + ".md"},
		Labels:      map[string]string{"severity": string(a.Severity), "product": "kvwhatif"},
	}
	is, threshold := a.Is, a.Threshold
	if f.name == "prometheus" { // an expression holds where it gives a sample, whatever its value, and none is well
		r.UID, r.NoDataState = "kvwhatif-prom-"+strings.ToLower(a.Name), "OK"
		model["expr"] = "(" + a.PromQL + ") * 0 + 1"
		is, threshold = Above, 0
	} else {
		r.Annotations["value"] = "{{ $values.A.Value }}" + a.Unit
	}
	r.Data = []query{
		{RefID: "A", RelativeTimeRange: map[string]int{"from": 3600, "to": 0}, DatasourceUID: f.uid, Model: model},
		{RefID: "C", RelativeTimeRange: map[string]int{"from": 3600, "to": 0}, DatasourceUID: "__expr__", Model: map[string]any{
			"refId": "C", "type": "threshold", "expression": "A",
			"conditions": []any{map[string]any{"evaluator": map[string]any{"type": string(is), "params": []float64{threshold}}}},
		}},
	}
	return r
}

// short is a duration as Grafana and Prometheus write it.
func short(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// encode writes YAML, with a line that says where it comes from.
func encode(v any) ([]byte, error) {
	b := bytes.NewBufferString("# Made by go generate ./dashboards/alerts: change dashboards/alerts/alert.go instead.\n")
	e := yaml.NewEncoder(b)
	e.SetIndent(2)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}
