package live

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

var start = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

// fake is a source whose answers a test sets.
type fake struct {
	mu       sync.Mutex
	data     report.Data
	held     query.Holdings
	requests []report.Request
	err      error
	asked    []query.Window
	ids      []string
}

func (f *fake) Data(_ context.Context, w query.Window) (report.Data, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, w)
	return f.data, f.err
}

func (f *fake) Held(context.Context, query.Window) (query.Holdings, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held, nil
}

func (f *fake) Requests(_ context.Context, id string) ([]report.Request, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, id)
	return f.requests, f.err
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// full is a source that has something to say in every section.
func full(t *testing.T) *fake {
	t.Helper()
	raw, err := os.ReadFile("../report/testdata/sample.json")
	require.NoError(t, err)
	f := &fake{held: query.Holdings{Links: []string{"busy", "calm"}, Models: []string{"qwen-7b", "a-model-with-a-very-long-name-that-someone-chose"}, Newest: start, Legs: 9, Documents: 1}}
	require.NoError(t, json.Unmarshal(raw, &f.data))
	f.data.Title, f.data.Simulated = "", false
	for i := range f.data.Verdicts {
		v := &f.data.Verdicts[i]
		v.At, v.From, v.To = start, start.Add(-time.Hour), start
	}
	for i := range f.data.Worst {
		f.data.Worst[i].ID = "000102030405060708090a0b0c0d0e0f"
	}
	f.requests = []report.Request{sampleRequest()}
	return f
}

func sampleRequest() report.Request {
	n := report.Num
	return report.Request{
		ID: "000102030405060708090a0b0c0d0e0f", Trace: "4bf92f3577b34da6a3ce929d0e0e4736", RequestID: "cmpl-17", At: start, Path: "fetch",
		Model: "qwen-7b", GPU: "h100", Worker: "worker-3", Source: "cache-1", Tier: "cpu", Link: "busy", Policy: "always-fetch", Revision: 4,
		Prompt: n(8192), Prefix: n(8000), Reused: n(8000), Bytes: n(1 << 30), Flows: n(15), Active: n(2), StateAge: n(0.2), Queue: n(0.1), Transfer: n(4.14), Benefit: n(-3.9),
		Taken: report.Timeline{GPUQueue: n(0.04), ExposedStall: n(4.2), Restore: n(0.05), Prefill: n(0.09), TTFT: n(4.41)},
		Candidates: []report.Candidate{
			{Path: "fetch", Worker: "worker-3", Link: "busy", Chosen: true, Propensity: n(0.9), Externality: n(0.3), Stages: report.Timeline{GPUQueue: n(0.04), ExposedStall: n(0.9), Restore: n(0.05), Prefill: n(0.09), TTFT: n(1.08)}},
			{Path: "recompute", Worker: "worker-3", Alternative: true, Propensity: n(0.1), Stages: report.Timeline{GPUQueue: n(0.04), Prefill: n(0.48), TTFT: n(0.52)}},
			{Path: "route", Worker: "worker-9"},
		},
		Replays: []report.Leg{{Kind: "rejected", Path: "recompute", Worker: "worker-3", At: start.Add(time.Minute), Carried: n(0.55), Stages: report.Timeline{GPUQueue: n(0.01), Prefill: n(0.5), TTFT: n(0.52)}}},
	}
}

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func handler(f *fake) http.Handler {
	return New(Config{Source: f, Version: "test", OTLP: "127.0.0.1:4318", Now: at(start.Add(7 * time.Second))})
}

func ask(h http.Handler, method, target, host string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	return ask(h, http.MethodGet, target, "127.0.0.1:9474")
}

func TestOnlyNamesThatAreKnown(t *testing.T) {
	h := New(Config{Source: full(t), Hosts: []string{"kv.example.com"}, Now: at(start)})
	for host, ok := range map[string]bool{
		"127.0.0.1:9474": true, "localhost:9474": true, "LOCALHOST": true, "[::1]:9474": true, "127.8.0.1": true, "kv.example.com": true, "KV.example.com.:443": true,
		"": false, "attacker.example": false, "127.0.0.1.attacker.example:9474": false, "10.0.0.1:9474": false, "localhost.attacker.example": false, "0.0.0.0:9474": false, "[::]": false,
	} {
		status := ask(h, http.MethodGet, "/", host).Code
		require.Equal(t, ok, status == http.StatusOK, "%s: %d", host, status)
	}
	require.Contains(t, ask(h, http.MethodGet, "/", "attacker.example").Body.String(), "page.hosts")
}

func TestOnlyReads(t *testing.T) {
	h := handler(full(t))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		w := ask(h, method, "/", "localhost")
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
		require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	}
	require.Equal(t, http.StatusOK, ask(h, http.MethodHead, "/", "localhost").Code)
}

func TestHeaders(t *testing.T) {
	h := handler(full(t))
	for _, target := range []string{"/", "/request/x", "/api/report", "/nowhere", "/?range=never"} {
		header := get(h, target).Header()
		require.Equal(t, policy, header.Get("Content-Security-Policy"), target)
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		require.Empty(t, header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "no-store", header.Get("Cache-Control"))
	}
	require.NotContains(t, policy, "unsafe")
}

func TestWindowIsWhatWasChosen(t *testing.T) {
	f := full(t)
	require.Equal(t, http.StatusOK, get(handler(f), "/?range=6h&link=busy&model=qwen-7b").Code)
	require.Equal(t, []query.Window{{From: start.Add(-6 * time.Hour), Until: start, Link: "busy", Model: "qwen-7b"}}, f.asked)
	f = full(t)
	get(handler(f), "/")
	require.Equal(t, start.Add(-time.Hour), f.asked[0].From)
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	f := full(t)
	for target, why := range map[string]string{
		"/?range=2h": "15m, 1h, 6h, 24h or 7d", "/?links=busy": "range, link or model", "/?link=" + strings.Repeat("x", 600): "longer than",
		"/api/report?range=-1h": "15m, 1h", "/request/" + strings.Repeat("x", 300): "longer than any",
	} {
		w := get(handler(f), target)
		require.Equal(t, http.StatusBadRequest, w.Code, target)
		require.Contains(t, w.Body.String(), why, target)
	}
	require.Empty(t, f.asked)
}

func TestAnAnswerIsKept(t *testing.T) {
	f := full(t)
	h := handler(f)
	first := get(h, "/")
	etag := first.Header().Get("ETag")
	require.NotEmpty(t, etag)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "localhost"
	r.Header.Set("If-None-Match", etag)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.String())
	get(h, "/api/report")
	require.Len(t, f.asked, 1, "one window was read more than once")
	get(h, "/?range=6h")
	require.Len(t, f.asked, 2)
}

func TestDearAnswersAreKeptLonger(t *testing.T) {
	var a answers
	c := choice{Range: "7d"}
	a.keep(c, kept{&answer{}, start, 6 * time.Second})
	require.NotNil(t, a.find(c, start.Add(time.Minute)))
	require.Nil(t, a.find(c, start.Add(time.Minute+every)))
	require.Nil(t, a.find(choice{Range: "1h"}, start))
	for i := range 3 * maxAnswers {
		a.keep(choice{Link: strings.Repeat("x", i)}, kept{&answer{}, start, 0})
		require.LessOrEqual(t, len(a.kept), maxAnswers)
	}
}

func TestAProblemSaysWhy(t *testing.T) {
	f := full(t)
	f.err = errors.New("connection refused")
	h := handler(f)
	w := get(h, "/?range=6h")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "connection refused")
	require.Contains(t, w.Body.String(), `href="/?range=6h"`)
	require.NotContains(t, w.Body.String(), "helping")
	require.Equal(t, http.StatusServiceUnavailable, get(h, "/api/report").Code)
	require.Equal(t, http.StatusServiceUnavailable, get(h, "/request/x").Code)
	f.set(func(f *fake) { f.err = nil })
	require.Equal(t, http.StatusOK, get(h, "/?range=6h").Code, "a failure must not be kept")
}

func TestRequests(t *testing.T) {
	f := full(t)
	w := get(handler(f), "/request/"+url.PathEscape("a/b <c>"))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, []string{"a/b <c>"}, f.ids)
	text := w.Body.String()
	for _, words := range []string{"4,410", "Not taken: recompute on worker-3 – predicted", "measured by replay", "carries to", "One request is one draw", "1.0"} {
		require.Contains(t, text, words)
	}
	require.NotContains(t, text, "<c>")
	require.NotContains(t, text, `class="badge helping"`, "one request is no verdict")
	f.requests = nil
	w = get(handler(f), "/request/none")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "No request has this row id")
	require.Equal(t, http.StatusNotFound, get(handler(f), "/api/request/none").Code)
}

func TestJSONIsTheReports(t *testing.T) {
	f := full(t)
	w := get(handler(f), "/api/report")
	var got report.Data
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, f.data.Verdicts[0].Own, got.Verdicts[0].Own)
	require.Equal(t, "test", got.Measured.Version)
	w = get(handler(f), "/api/request/x")
	var all []report.Request
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &all))
	require.Equal(t, f.requests[0].Taken, all[0].Taken)
}

// TestPagesAskNobodyElse holds that no page names an address of another server,
// and no style, handler or script is inside it: the policy would refuse them.
func TestPagesAskNobodyElse(t *testing.T) {
	f := full(t)
	for _, v := range []*string{&f.data.Verdicts[0].Link, &f.data.Worst[0].Trace, &f.held.Links[0], &f.held.Models[0], &f.requests[0].Path, &f.requests[0].Worker} {
		*v = `"><script src=//evil.example></script><img src=x onerror=alert(1)>`
	}
	f.data.Worst[0].ID = "javascript:alert(1)"
	for _, target := range []string{"/", "/request/x", "/?range=no", "/?link=" + url.QueryEscape(`"><script>alert(1)</script>`), "/request/" + url.PathEscape(`<script>alert(1)</script>`)} {
		root, err := html.Parse(strings.NewReader(get(handler(f), target).Body.String()))
		require.NoError(t, err)
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				checkNode(t, n)
			}
		}
	}
}

func checkNode(t *testing.T, n *html.Node) {
	t.Helper()
	require.NotContains(t, []string{"img", "iframe", "object", "embed", "base", "style"}, n.Data)
	for _, a := range n.Attr {
		require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style", a.Key)
		switch a.Key {
		case "href", "src", "action":
			require.True(t, strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") || strings.HasPrefix(a.Val, "#") || a.Val == "data:,", a.Val)
		}
	}
	if n.Data == "script" {
		require.Nil(t, n.FirstChild)
	}
}

func TestAssetsAreServed(t *testing.T) {
	h := handler(full(t))
	root, err := html.Parse(strings.NewReader(get(h, "/").Body.String()))
	require.NoError(t, err)
	found := 0
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Val, "/assets/") {
				found++
				w := get(h, a.Val)
				require.Equal(t, http.StatusOK, w.Code, a.Val)
				require.NotEmpty(t, w.Body.Bytes())
			}
		}
	}
	require.Equal(t, 2, found)
}
