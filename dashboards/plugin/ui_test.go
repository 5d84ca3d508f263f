package plugin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
)

// need is the path of a program. A laptop without it skips; CI fails.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("%s is not on PATH: install it by apt", name)
	}
	if err != nil {
		t.Skip(name + " is not on PATH")
	}
	return path
}

// inUI runs a program in the directory of the UI.
func inUI(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = "ui"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

// packages puts what the lock file names into ui/node_modules, once.
func packages(t *testing.T) {
	t.Helper()
	need(t, "node")
	lock, err := os.Stat("ui/package-lock.json")
	require.NoError(t, err)
	if have, err := os.Stat("ui/node_modules/.package-lock.json"); err == nil && !have.ModTime().Before(lock.ModTime()) {
		return
	}
	inUI(t, need(t, "npm"), "ci")
}

// The module that is kept is what its sources make, and they use only what all
// Grafanas from 7.5 to 13 give to plugins.
func TestModuleIsBuiltFromItsSources(t *testing.T) {
	packages(t)
	inUI(t, "node", "node_modules/typescript/bin/tsc", "--noEmit", "-p", ".")
	inUI(t, "node", "build.mjs", "--check")
}

// esm is what the loader of Grafana 7.5 (SystemJS 0.20) takes for a sign that a
// module is no AMD module.
var esm = regexp.MustCompile(`(^\s*|[}\);\n]\s*)(import\s*(['"]|(\*\s+as\s+)?[^"'\(\)\n;]+\s+from\s+['"]|\{)|export\s+\*\s+from\s+["']|export\s+(\{|default|function|class|var|const|let|async\s+function))`)

func TestModuleIsPlainAMD(t *testing.T) {
	module, err := os.ReadFile("module.js")
	require.NoError(t, err)
	require.False(t, esm.Match(module))
	require.NotContains(t, string(module), "jsx-runtime")
	require.NotContains(t, string(module), "System.register")
}

// site serves the page of a generation of Grafana, with the plugin where Grafana
// has it.
func site(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	inUI(t, "node", "test/build.mjs", dir)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/public/plugins/"+ID+"/module.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "module.js") })
	for generation, loaders := range map[string]int{"7.5.17": 1, "13.2.3": 2} {
		page := `<!doctype html><meta charset="utf-8"><title>` + generation + `</title><link rel="icon" href="data:,"><div id="root"></div>`
		for i := range loaders {
			page += `<script src="/loader-` + generation + `-` + string(rune('0'+i)) + `.js"></script>`
		}
		page += `<script src="/harness-` + generation + `.js"></script>`
		require.NoError(t, os.WriteFile(filepath.Join(dir, generation+".html"), []byte(page), 0o600))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func browser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(need(t, "chromium")), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocated, stopAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, stop := chromedp.NewContext(allocated)
	t.Cleanup(func() { stop(); stopAllocator() })
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // a hung browser must not hang CI
	t.Cleanup(cancel)
	return ctx
}

// tab is one page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func (b tab) eval(script string, out any) {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("JSON.stringify("+script+" ?? null)"))
	require.NoError(b.t, err, script)
	require.NoError(b.t, json.Unmarshal([]byte(text), out), script)
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

func (b tab) write(id, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS("#"+id), text))
}

func (b tab) click(css string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(css)))
}

// choose picks an option of a <select>, as a person does.
func (b tab) choose(id, value string) {
	b.t.Helper()
	var there bool
	b.eval(`(() => { const e = document.getElementById('`+id+`'); const o = [...e.options].find(o => o.value === '`+value+`'); if (!o) return false;
		o.selected = true; e.dispatchEvent(new Event('change', { bubbles: true })); return true })()`, &there)
	require.True(b.t, there, "%s has no option %s", id, value)
}

type state struct {
	Options struct {
		JSONData         map[string]any    `json:"jsonData"`
		SecureJSONData   map[string]string `json:"secureJsonData"`
		SecureJSONFields map[string]bool   `json:"secureJsonFields"`
	} `json:"options"`
	Query    map[string]any `json:"query"`
	Variable struct {
		Q    map[string]any `json:"q"`
		Text string         `json:"text"`
	} `json:"variable"`
}

func (b tab) saved() (s state) {
	b.t.Helper()
	b.eval("window.saved", &s)
	return s
}

// TestEveryGenerationLoadsThePlugin loads module.js by the loader of each generation
// of Grafana, with only what that generation exports, and types into its editors.
func TestEveryGenerationLoadsThePlugin(t *testing.T) {
	packages(t)
	url, ctx := site(t), browser(t)
	require.NoError(t, chromedp.Do(ctx))
	for _, generation := range []string{"7.5.17", "13.2.3"} {
		t.Run(generation, func(t *testing.T) {
			b := tab{t, ctx}
			b.do(chromedp.Navigate(url + "/" + generation + ".html"))
			b.do(chromedp.WaitReady(chromedp.CSS("#config-host, #failed")))
			var failed *string
			b.eval("window.failed", &failed)
			require.Nil(t, failed)
			t.Run("config", func(t *testing.T) { checkConfig(tab{t, ctx}) })
			t.Run("query", func(t *testing.T) { checkQuery(tab{t, ctx}) })
			t.Run("variable", func(t *testing.T) { checkVariable(tab{t, ctx}) })
			t.Run("variables put in", func(t *testing.T) { checkTemplates(tab{t, ctx}) })
		})
	}
}

func checkConfig(b tab) {
	b.write("config-host", "ch.example")
	b.write("config-port", "8443")
	b.write("config-username", "reader")
	b.write("config-password", `it's "secret"`)
	b.write("config-database", "k")
	b.write("config-rowLimit", "500")
	b.click("#config [role=radiogroup] [data-value=native]")
	b.click("#config-secure")
	b.write("config-serverName", "other")
	b.write("config-tlsCACert", "-----BEGIN CERTIFICATE-----")
	b.click("#reset-tlsClientKey")
	b.write("config-tlsClientKey", "key")
	s := b.saved().Options
	require.Equal(b.t, map[string]any{"host": "ch.example", "port": 8443.0, "username": "reader", "database": "k", "rowLimit": 500.0, "protocol": "native", "secure": true, "serverName": "other"}, s.JSONData)
	require.Equal(b.t, map[string]string{"password": `it's "secret"`, "tlsCACert": "-----BEGIN CERTIFICATE-----", "tlsClientKey": "key"}, s.SecureJSONData)
	raw, err := json.Marshal(s.JSONData)
	require.NoError(b.t, err)
	var settings Settings
	require.NoError(b.t, json.Unmarshal(raw, &settings))
	_, err = settings.complete()
	require.NoError(b.t, err, "the backend takes what the page saves")
}

// checkQuery goes through every type and view; what is saved the backend takes.
func checkQuery(b tab) {
	types := options(b, "query-type")
	require.Len(b.t, types, len(query.Types)-1, "all but variable, which has an editor of its own")
	for _, kind := range types {
		b.choose("query-type", kind)
		switch kind {
		case "request":
			b.write("query-request", "abc")
		case "sql":
			b.write("query-sql", "SELECT 1")
		}
		var shown []string
		b.eval(`[...document.querySelectorAll('#query [role=radiogroup]')].slice(0, 1).flatMap(g => [...g.children].map(c => c.dataset.value))`, &shown)
		for _, view := range shown {
			b.click("#query [role=radiogroup] [data-value=" + view + "]")
			require.Equal(b.t, view, b.saved().Query["view"])
			taken(b)
		}
		taken(b)
	}
	b.choose("query-type", "benefit")
	b.choose("query-by", "link")
	b.click("#query [role=radiogroup] [data-value=series]")
	b.click("#query [role=radiogroup] [data-value=measured]")
	b.do(chromedp.Focus(chromedp.CSS("#filter-link")))
	b.do(chromedp.WaitReady(chromedp.CSS("#filter-link option[value=spine]")))
	b.choose("filter-link", "spine")
	b.write("filter-link-custom", "other"+kb.Enter)
	b.choose("filter-model", "$model")
	q := taken(b)
	require.Equal(b.t, query.Filter{Link: query.List{"spine", "other"}, Model: query.List{"$model"}}, q.Filter)
	require.Equal(b.t, []any{query.TypeBenefit, "series", "link", "measured"}, []any{q.Type, q.View, q.By, q.Source})
	b.choose("query-type", "decisions")
	b.write("query-limit", "7")
	require.Equal(b.t, 7, taken(b).Limit)
	var runs int
	b.eval("window.runs", &runs)
	require.Greater(b.t, runs, 20)
}

func options(b tab, id string) (out []string) {
	b.t.Helper()
	b.eval("[...document.getElementById('"+id+"').options].map(o => o.value).filter(v => v)", &out)
	return out
}

func taken(b tab) query.Question {
	b.t.Helper()
	raw, err := json.Marshal(b.saved().Query)
	require.NoError(b.t, err)
	q, err := query.Parse(raw)
	require.NoError(b.t, err, "%s", raw)
	return q
}

func checkVariable(b tab) {
	b.choose("variable-of", "link")
	s := b.saved().Variable
	require.Equal(b.t, "values of link", s.Text)
	require.Equal(b.t, map[string]any{"refId": "variable", "queryType": "variable", "of": "link"}, s.Q)
	for _, asked := range []string{"'link'", "{ of: 'link' }"} {
		var found []map[string]string
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("datasource.metricFindQuery("+asked+", {}).then(JSON.stringify)", awaited))
		require.NoError(b.t, err)
		require.NoError(b.t, json.Unmarshal([]byte(text), &found))
		require.Equal(b.t, []map[string]string{{"text": "spine", "value": "spine"}, {"text": "(none)", "value": "(none)"}}, found)
	}
}

func awaited(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }

func checkTemplates(b tab) {
	var q query.Question
	apply := func(asked string) query.Question {
		q = query.Question{}
		b.eval("datasource.applyTemplateVariables("+asked+", { __interval: { text: '30s', value: '30s' }, __from: { text: '1', value: '1' } })", &q)
		return q
	}
	apply(`{ refId: 'A', queryType: 'benefit', filter: { link: ['$link'], model: ['${model}', 'x-$model'], path: ['$everything'], tier: 'cpu' } }`)
	require.Equal(b.t, query.Filter{Link: query.List{"spine", "o'rail"}, Model: query.List{"m", "x-m"}, Path: query.List{"*"}, Tier: query.List{"cpu"}}, q.Filter)
	apply(`{ refId: 'A', queryType: 'sql', sql: "SELECT $__interval, $__from, ${model} WHERE link IN ($link) AND $__timeFilter(minute)" }`)
	require.Equal(b.t, `SELECT $__interval, $__from, m WHERE link IN ('spine', 'o\'rail') AND $__timeFilter(minute)`, q.SQL)
	require.Equal(b.t, "m", apply(`{ refId: 'A', queryType: 'request', request: '$model' }`).Request)
	for asked, runs := range map[string]bool{`{}`: true, `{ hide: true }`: false, `{ queryType: 'sql' }`: false, `{ queryType: 'request', request: '' }`: false, `{ queryType: 'sql', sql: 'SELECT 1' }`: true} {
		var got bool
		b.eval("datasource.filterQuery("+strings.Replace(asked, "{", "{ refId: 'A',", 1)+")", &got)
		require.Equal(b.t, runs, got, asked)
	}
}
