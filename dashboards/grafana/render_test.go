package grafana

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the dashboards")

// The JSON in the repository is what the definitions make, and nothing else is there.
func TestJSONIsWhatIsDefined(t *testing.T) {
	made, err := Render()
	require.NoError(t, err)
	require.Len(t, made, len(flavours)*2*len(Dashboards()))
	if *update {
		require.NoError(t, os.RemoveAll("json"))
		for path, raw := range made {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join("json", path)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join("json", path), raw, 0o644))
		}
	}
	found, err := filepath.Glob("json/*/*")
	require.NoError(t, err)
	require.Len(t, found, len(made), "files that nothing makes: run go test ./dashboards/grafana -update")
	for path, raw := range made {
		have, err := os.ReadFile(filepath.Join("json", path))
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, have), "%s is not what is defined: run go test ./dashboards/grafana -update", path)
	}
}

// The current files are read back strictly by the types of Grafana's own schema.
func TestCurrentFilesAreOfTheSchema(t *testing.T) {
	for path, raw := range rendered(t, false) {
		var d dashboard.Dashboard
		require.NoError(t, json.Unmarshal(raw, &d), path)
		require.EqualValues(t, 42, d.SchemaVersion)
	}
}

func rendered(t *testing.T, older bool) map[string][]byte {
	t.Helper()
	all, err := Render()
	require.NoError(t, err)
	out := map[string][]byte{}
	for path, raw := range all {
		if strings.Contains(path, "-7.5/") == older {
			out[path] = raw
		}
	}
	require.NotEmpty(t, out)
	return out
}

// Panels that Grafana 7.5 has. state-timeline, status-history, histogram and
// barchart came with 8.
var olderPanels = map[string]bool{"stat": true, "table": true, "graph": true, "text": true, "row": true}

func TestOlderFilesHoldWhatGrafana75Knows(t *testing.T) {
	for path, raw := range rendered(t, true) {
		d := parsed(t, raw)
		require.EqualValues(t, 27, d["schemaVersion"], path)
		for _, p := range panels(d) {
			require.True(t, olderPanels[p["type"].(string)], "%s: %v", path, p["type"])
		}
		walk(d, func(o object) {
			_, reference := o["datasource"].(object)
			require.False(t, reference, "%s: a datasource is a name there", path)
			require.NotEqual(t, "custom.cellOptions", o["id"], path)
			if o["id"] == "mappings" {
				for _, m := range o["value"].([]any) {
					require.EqualValues(t, 1, m.(object)["type"], path)
				}
			}
		})
	}
}

func parsed(t *testing.T, raw []byte) object {
	t.Helper()
	var d object
	require.NoError(t, json.Unmarshal(raw, &d))
	return d
}

func panels(d object) (out []object) {
	for _, p := range d["panels"].([]any) {
		out = append(out, p.(object))
	}
	return out
}

func walk(v any, see func(object)) {
	switch v := v.(type) {
	case object:
		see(v)
		for _, child := range v {
			walk(child, see)
		}
	case []any:
		for _, child := range v {
			walk(child, see)
		}
	}
}

func TestEveryPanelIsWhole(t *testing.T) {
	all, err := Render()
	require.NoError(t, err)
	for path, raw := range all {
		d := parsed(t, raw)
		ids := map[any]bool{}
		var cells [400][24]bool
		for _, p := range panels(d) {
			require.False(t, ids[p["id"]], "%s: id %v twice", path, p["id"])
			ids[p["id"]] = true
			occupy(t, path, &cells, p)
			if p["type"] == "row" {
				continue
			}
			require.NotEmpty(t, p["description"], "%s: %v", path, p["title"])
			if p["type"] != "text" {
				require.Contains(t, string(mustJSON(t, p["datasource"])), "${datasource}", "%s: %v", path, p["title"])
				require.NotEmpty(t, p["fieldConfig"].(object)["defaults"].(object)["noValue"], "%s: %v", path, p["title"])
			}
		}
		first := d["templating"].(object)["list"].([]any)[0].(object)
		require.Equal(t, "datasource", first["name"], path)
	}
}

func occupy(t *testing.T, path string, cells *[400][24]bool, p object) {
	t.Helper()
	g := p["gridPos"].(object)
	n := func(k string) int { return int(g[k].(float64)) }
	require.LessOrEqual(t, n("x")+n("w"), 24, path)
	for y := n("y"); y < n("y")+n("h"); y++ {
		for x := n("x"); x < n("x")+n("w"); x++ {
			require.False(t, cells[y][x], "%s: %v lies upon another panel", path, p["title"])
			cells[y][x] = true
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}

// Nothing but the verdict HELPS is green: no first step, which missing values take,
// no null, and no figure whose sign alone does not tell.
func TestUnknownIsNeverGreen(t *testing.T) {
	all, err := Render()
	require.NoError(t, err)
	greens := 0
	for path, raw := range all {
		walk(parsed(t, raw), func(o object) {
			if steps, ok := o["steps"].([]any); ok {
				first := steps[0].(object)
				require.Nil(t, first["value"], path)
				require.Equal(t, Neutral, first["color"], path)
			}
			if color, _ := o["color"].(string); strings.Contains(color, "green") {
				value, isStep := o["value"]
				require.True(t, isStep && value == 3. || o["text"] == "HELPS", "%s: green is %v", path, o)
				greens++
			}
		})
	}
	require.NotZero(t, greens)
	require.Equal(t, "UNKNOWN", states[0].text)
}

// Words for people: each panel says what it means and when to act, and why it may
// be empty.
func TestPanelsSayWhatToDo(t *testing.T) {
	uids, opened := map[string]bool{}, map[string]bool{}
	for _, d := range Dashboards() {
		require.False(t, uids[d.UID])
		uids[d.UID] = true
		for _, p := range d.Panels {
			if p.Kind == Row || p.Kind == Text {
				continue
			}
			require.Greater(t, len(p.Text), 60, p.Title)
			require.Greater(t, len(p.Empty), 20, p.Title)
			require.NotEmpty(t, p.Columns, p.Title)
			for _, c := range p.Columns {
				require.Contains(t, []string{"time", "text", "number"}, c.Type, p.Title)
				page, variable, _ := strings.Cut(c.Opens, "?var-")
				opened[page] = true
				require.Equal(t, c.Opens != "", variable != "", p.Title)
			}
		}
	}
	delete(opened, "")
	require.Len(t, opened, 2)
	for page := range opened {
		require.True(t, uids[page], "%s is opened, and is no page", page)
	}
}
