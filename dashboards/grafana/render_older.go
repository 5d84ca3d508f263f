package grafana

import (
	"encoding/json"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// olderSchema is that of Grafana 7.5.
const olderSchema = 27

// object is a piece of JSON.
type object = map[string]any

// downgrade turns a dashboard into the schema of Grafana 7.5: datasources by name,
// mappings of one value to one text, colours by thresholds alone, and its panels:
// timeseries becomes graph, barchart a table. It is what that version would save.
func downgrade(d dashboard.Dashboard) (object, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	out["schemaVersion"] = olderSchema
	byName(out)
	for _, p := range out["panels"].([]any) {
		olderPanel(p.(object))
	}
	for _, a := range out["annotations"].(object)["list"].([]any) {
		annotation := a.(object)
		for k, v := range annotation["target"].(object) { // 7.5 knows no target: the query is the annotation's own
			annotation[k] = v
		}
		annotation["datasource"] = "${datasource}"
	}
	return out, nil
}

// byName replaces references to datasources by their names, and takes out what
// came later.
func byName(v any) {
	switch v := v.(type) {
	case object:
		if _, ref := v["datasource"].(object); ref {
			v["datasource"] = "${datasource}"
		}
		for _, child := range v {
			byName(child)
		}
	case []any:
		for _, child := range v {
			byName(child)
		}
	}
}

func olderPanel(p object) {
	config, _ := p["fieldConfig"].(object)
	if config != nil {
		for _, o := range config["overrides"].([]any) {
			olderOverride(o.(object))
		}
	}
	switch p["type"] {
	case "timeseries":
		olderGraph(p, config)
	case "barchart":
		p["type"], p["options"] = "table", object{"showHeader": true}
		config["defaults"].(object)["custom"] = object{"align": nil, "filterable": false}
	case "stat":
		delete(p["options"].(object), "showPercentChange")
		p["options"].(object)["text"] = object{}
	}
	p["pluginVersion"] = "7.5.17"
	if p["type"] == "row" {
		delete(p, "pluginVersion")
	}
}

// olderOverride rewrites properties that had another name or form.
func olderOverride(o object) {
	for _, each := range o["properties"].([]any) {
		property := each.(object)
		switch property["id"] {
		case "custom.cellOptions":
			property["id"], property["value"] = "custom.displayMode", "color-text"
		case "mappings":
			property["value"] = olderMappings()
		}
	}
}

// olderMappings are the words of states: type 1 is a value to a text.
func olderMappings() []any {
	var out []any
	for i, s := range states {
		out = append(out, object{"id": i + 1, "type": 1, "value": string(rune('0' + i)), "text": s.text})
	}
	return append(out, object{"id": len(states) + 1, "type": 1, "value": "null", "text": states[0].text})
}

// olderGraph makes the panel graph of a timeseries.
func olderGraph(p, config object) {
	defaults := config["defaults"].(object)
	custom, _ := defaults["custom"].(object)
	_, stacked := custom["stacking"]
	fill := 0
	if stacked {
		fill = 4
	}
	axis := func(format any, show bool) object {
		return object{"format": format, "show": show, "logBase": 1, "min": nil, "max": nil, "label": nil}
	}
	unit := defaults["unit"]
	if unit == nil {
		unit = "short"
	}
	for key, value := range (object{
		"type": "graph", "renderer": "flot", "lines": true, "linewidth": 1, "fill": fill, "stack": stacked, "points": false, "bars": false,
		"nullPointMode": "null", "seriesOverrides": []any{}, "thresholds": []any{}, "timeRegions": []any{},
		"legend":  object{"show": true, "values": false},
		"tooltip": object{"shared": true, "sort": 0, "value_type": "individual"},
		"xaxis":   object{"mode": "time", "show": true, "name": nil, "values": []any{}, "buckets": nil},
		"yaxes":   []any{axis(unit, true), axis("short", false)}, "yaxis": object{"align": false},
	}) {
		p[key] = value
	}
	p["options"] = object{"alertThreshold": true}
	delete(defaults, "custom")
	delete(defaults, "color")
}
