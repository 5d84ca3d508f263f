package grafana

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// target is a query as the datasource of a flavour reads it.
type target = variants.UnknownDataquery

func ptr[T any](v T) *T { return &v }

// source refers to the datasource that the reader of a dashboard chose.
func (f flavour) source() *common.DataSourceRef {
	return &common.DataSourceRef{Type: ptr(f.plugin), Uid: ptr("${datasource}")}
}

// render makes a dashboard of the current schema.
func (f flavour) render(d Dashboard, older bool) (dashboard.Dashboard, error) {
	out := *dashboard.NewDashboard()
	out.Uid, out.Title, out.Description = ptr(d.UID), ptr(d.Title), ptr(d.Text)
	out.Tags = []string{"kvwhatif"}
	out.Time = &dashboard.DashboardDashboardTime{From: "now-6h", To: "now"}
	out.Refresh, out.Editable, out.Timezone = ptr("1m"), ptr(true), ptr("browser")
	out.GraphTooltip = ptr(dashboard.DashboardCursorSyncCrosshair)
	out.Links = []dashboard.DashboardLink{{Title: "kvwhatif", Type: dashboard.DashboardLinkTypeDashboards, Icon: "external link", Tags: []string{"kvwhatif"}, IncludeVars: true, KeepTime: true}}
	out.Templating.List = f.variables(d)
	for _, e := range events {
		t, err := f.annotation(e, older)
		if err != nil {
			return out, fmt.Errorf("dashboard %s, annotation %s: %w", d.UID, e.name, err)
		}
		t["datasource"] = f.source()
		out.Annotations.List = append(out.Annotations.List, dashboard.AnnotationQuery{Name: e.name, Enable: true, IconColor: e.color, Datasource: f.source(), Target: target(t)})
	}
	for _, p := range d.Panels {
		made, err := f.panel(p, older)
		if err != nil {
			return out, fmt.Errorf("dashboard %s, panel %q: %w", d.UID, p.Title, err)
		}
		out.Panels = append(out.Panels, made)
	}
	return out, nil
}

func (f flavour) variables(d Dashboard) []dashboard.VariableModel {
	list := []dashboard.VariableModel{{Type: dashboard.VariableTypeDatasource, Name: "datasource", Label: ptr("Data source"), Query: &dashboard.StringOrMap{String: ptr(f.plugin)}}}
	for _, name := range d.Variables {
		v := dashboard.VariableModel{Type: dashboard.VariableTypeQuery, Name: name, Label: ptr(name), Datasource: f.source(), Multi: ptr(true), IncludeAll: ptr(true), AllValue: ptr(all),
			Refresh: ptr(dashboard.VariableRefreshOnTimeRangeChanged), Sort: ptr(dashboard.VariableSortAlphabeticalAsc),
			Current: &dashboard.VariableOption{Selected: ptr(true), Text: dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}, Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}}}
		switch q := f.values(name).(type) {
		case string:
			v.Query = &dashboard.StringOrMap{String: &q}
		case object:
			v.Query = &dashboard.StringOrMap{Map: q}
		}
		list = append(list, v)
	}
	if d.Request {
		empty := dashboard.StringOrArrayOfString{String: ptr("")}
		list = append(list, dashboard.VariableModel{Type: dashboard.VariableTypeTextbox, Name: "request", Label: ptr("Trace id or request id"), Query: &dashboard.StringOrMap{String: ptr("")}, Current: &dashboard.VariableOption{Text: empty, Value: empty}})
	}
	return list
}

func (f flavour) panel(p Panel, older bool) (dashboard.PanelOrRowPanel, error) {
	grid := &dashboard.GridPos{X: p.X, Y: p.Y, W: p.W, H: p.H}
	if p.Kind == Row {
		return dashboard.PanelOrRowPanel{RowPanel: &dashboard.RowPanel{Type: "row", Title: ptr(p.Title), Id: p.ID, GridPos: grid, Panels: []dashboard.Panel{}}}, nil
	}
	out := dashboard.Panel{Id: ptr(p.ID), Title: ptr(p.Title), Description: ptr(p.Text), GridPos: grid}
	if p.Kind == Text {
		out.Type, out.Description = "text", ptr("What spans can carry without a coordinator's.")
		out.Options = object{"mode": "markdown", "content": p.Text}
		return dashboard.PanelOrRowPanel{Panel: &out}, nil
	}
	shape, known := shapes[p.Kind]
	if !known {
		return dashboard.PanelOrRowPanel{}, fmt.Errorf("kind %q has no panel", p.Kind)
	}
	out.Type, out.Options, out.Datasource = shape.panel, shape.options, f.source()
	t := f.target("A", macros.Replace(p.SQL), p.Kind, older)
	t["datasource"] = f.source()
	out.Targets = []variants.Dataquery{target(t)}
	out.FieldConfig = fields(p, shape.custom)
	return dashboard.PanelOrRowPanel{Panel: &out}, nil
}

// shapes are the panels of the current generation.
var shapes = map[Kind]struct {
	panel   string
	options object
	custom  object
}{
	Stat: {"stat", object{"colorMode": "value", "graphMode": "none", "justifyMode": "center", "orientation": "auto", "textMode": "auto",
		"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}}, nil},
	Lines: {"timeseries", seriesOptions(), object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "spanNulls": false, "showPoints": "auto"}},
	Area:  {"timeseries", seriesOptions(), object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 40, "spanNulls": false, "showPoints": "never", "stacking": object{"mode": "normal", "group": "A"}}},
	Bars:  {"barchart", object{"orientation": "vertical", "showValue": "auto", "legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi"}}, object{"fillOpacity": 70}},
	Table: {"table", object{"showHeader": true}, object{"align": "auto", "filterable": true}},
}

func seriesOptions() object {
	return object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi"}}
}

// fields are the units, colours, links and words of a panel's columns.
func fields(p Panel, custom object) *dashboard.FieldConfigSource {
	out := &dashboard.FieldConfigSource{Overrides: []dashboard.DashboardFieldConfigSourceOverrides{}}
	out.Defaults.NoValue, out.Defaults.Custom = ptr(p.Empty), custom
	mode := dashboard.FieldColorModeIdThresholds
	if p.Kind == Lines || p.Kind == Area || p.Kind == Bars {
		mode = dashboard.FieldColorModeIdPaletteClassic
		out.Defaults.Unit = ptr(unitOf(p))
	}
	out.Defaults.Color = &dashboard.FieldColor{Mode: mode}
	out.Defaults.Thresholds = &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: thresholds(nil)}
	if p.Kind == Table || p.Kind == Stat {
		out.Defaults.NoValue = ptr("unknown")
		if p.Kind == Stat {
			out.Defaults.NoValue = ptr(p.Empty)
		}
	}
	for _, c := range p.Columns {
		if properties := override(p.Kind, c); len(properties) > 0 {
			out.Overrides = append(out.Overrides, dashboard.DashboardFieldConfigSourceOverrides{Matcher: dashboard.MatcherConfig{Id: "byName", Options: c.Name}, Properties: properties})
		}
	}
	return out
}

// unitOf is the unit of all numbers of a panel of series, which have one axis.
func unitOf(p Panel) string {
	for _, c := range p.Columns {
		if c.Type == "number" {
			return c.Unit
		}
	}
	return ""
}

func override(kind Kind, c Column) (out []dashboard.DynamicConfigValue) {
	add := func(id string, value any) { out = append(out, dashboard.DynamicConfigValue{Id: id, Value: value}) }
	if c.Unit != "" {
		add("unit", c.Unit)
	}
	if c.State {
		add("mappings", stateMappings())
		add("thresholds", dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: stateSteps()})
	}
	if len(c.Steps) > 0 {
		add("thresholds", dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: thresholds(c.Steps)})
	}
	if kind == Table && (c.State || len(c.Steps) > 0) {
		add("custom.cellOptions", object{"type": "color-text"})
	}
	if c.Opens != "" {
		add("links", []object{{"title": "Open it", "url": "/d/" + c.Opens + "=${__value.raw}&${datasource:queryparam}&${__url_time_range}"}})
	}
	return out
}

// thresholds begin with the colour of what is not known: Grafana gives the first
// to values that are not there.
func thresholds(steps []Step) []dashboard.Threshold {
	out := []dashboard.Threshold{{Color: Neutral}}
	for _, s := range steps {
		out = append(out, dashboard.Threshold{Value: ptr(s.From), Color: s.Color})
	}
	return out
}

func stateSteps() []dashboard.Threshold {
	out := thresholds(nil)
	for i, s := range states {
		out = append(out, dashboard.Threshold{Value: ptr(float64(i)), Color: s.color})
	}
	return out
}

func stateMappings() []dashboard.ValueMapping {
	byValue := map[string]dashboard.ValueMappingResult{}
	for i, s := range states {
		byValue[fmt.Sprint(i)] = dashboard.ValueMappingResult{Text: ptr(s.text), Color: ptr(s.color), Index: ptr(int32(i))}
	}
	return []dashboard.ValueMapping{
		{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: byValue}},
		{SpecialValueMap: &dashboard.SpecialValueMap{Type: dashboard.MappingTypeSpecialValue, Options: dashboard.DashboardSpecialValueMapOptions{
			Match: dashboard.SpecialValueMatchNullAndNan, Result: dashboard.ValueMappingResult{Text: ptr(states[0].text), Color: ptr(states[0].color), Index: ptr(int32(len(states)))}}}},
	}
}

// Render makes every file of the directory json, by its path there.
func Render() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, f := range flavours {
		for _, d := range Dashboards() {
			for _, older := range []bool{false, true} {
				made, err := f.render(d, older)
				if err != nil {
					return nil, err
				}
				var doc any = made
				dir := f.name
				if older {
					dir += "-7.5"
					if doc, err = downgrade(made); err != nil {
						return nil, fmt.Errorf("dashboard %s for Grafana 7.5: %w", d.UID, err)
					}
				}
				raw, err := json.MarshalIndent(doc, "", "  ")
				if err != nil {
					return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
				}
				out[dir+"/"+strings.TrimPrefix(d.UID, "kvwhatif-")+".json"] = append(raw, '\n')
			}
		}
	}
	return out, nil
}
