package grafana

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/plugin"
)

// Every query of the files for kvwhatif's own datasource, as Grafana hands it over, is
// answered by the plugin, which refuses more than the database does.
func TestPluginAnswersTheFiles(t *testing.T) {
	require.Equal(t, plugin.ID, PluginID)
	s := demo(t)
	e := whole(t, s)
	source := datasource(t, s)
	all, err := Render()
	require.NoError(t, err)
	queries := 0
	for path, raw := range all {
		if !strings.HasPrefix(path, "kvwhatif/") {
			continue
		}
		d := parsed(t, raw)
		for _, p := range panels(d) {
			targets, _ := p["targets"].([]any)
			for _, target := range targets {
				frames := ask(t, source, e, target.(object))
				require.NotEmpty(t, frames.Frames, "%s: %v", path, p["title"])
				queries++
			}
		}
		for _, v := range d["templating"].(object)["list"].([]any) {
			if q, ok := v.(object)["query"].(object); ok {
				require.NotEmpty(t, ask(t, source, e, q).Frames, "%s: %v", path, v.(object)["name"])
			}
		}
		for _, a := range d["annotations"].(object)["list"].([]any) {
			ask(t, source, e, a.(object)["target"].(object))
		}
	}
	require.Greater(t, queries, 40)
}

func datasource(t *testing.T, s server) *plugin.Datasource {
	t.Helper()
	port, err := strconv.Atoi(s.base.Port())
	require.NoError(t, err)
	settings := mustJSON(t, object{"protocol": "http", "host": s.base.Hostname(), "port": port, "username": s.base.User.Username(), "database": strings.TrimPrefix(s.base.Path, "/")})
	password, _ := s.base.User.Password()
	made, err := plugin.New(t.Context(), backend.DataSourceInstanceSettings{JSONData: settings, DecryptedSecureJSONData: map[string]string{"password": password}})
	require.NoError(t, err)
	source := made.(*plugin.Datasource)
	t.Cleanup(source.Dispose)
	return source
}

// ask hands a query to the plugin, with the variables in it replaced.
func ask(t *testing.T, source *plugin.Datasource, e expansion, q object) backend.DataResponse {
	t.Helper()
	if sql, ok := q["sql"].(string); ok {
		q["sql"] = e.variables(sql)
	}
	answer, err := source.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{{
		RefID: "A", JSON: mustJSON(t, q), TimeRange: backend.TimeRange{From: e.from, To: e.until}, Interval: time.Minute, MaxDataPoints: 1000,
	}}})
	require.NoError(t, err)
	require.NoError(t, answer.Responses["A"].Error, "%v", q)
	return answer.Responses["A"]
}
