package execute_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// falseSGLang answers as the source of SGLang 0.5.23 says that it would
// (entrypoints/http_server.py, entrypoints/v1_loads.py, managers/tokenizer_manager.py,
// managers/scheduler_components/output_streamer.py): the exchanges are made by hand.
type falseSGLang struct {
	URL   string
	info  map[string]any
	old   bool   // it has the endpoints of versions before 0.5.4
	event string // in place of its own

	mu            sync.Mutex
	gpu, storage  map[string]bool
	finished, bad int
}

func newFalseSGLang(t testing.TB) *falseSGLang {
	f := &falseSGLang{gpu: map[string]bool{}, storage: map[string]bool{}, info: map[string]any{
		"version": "0.5.23", "served_model_name": "tiny", "page_size": 16, "disable_radix_cache": false,
		"enable_hierarchical_cache": true, "hicache_storage_backend": "file", "enable_metrics": true,
	}}
	mux := http.NewServeMux()
	info := func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(f.info) }
	mux.HandleFunc("GET /server_info", info)
	mux.HandleFunc("GET /get_server_info", info)
	mux.HandleFunc("GET /v1/loads", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"timestamp":"2026-12-01T00:00:00Z","version":"0.5.23","loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0}]}`)
	})
	mux.HandleFunc("GET /get_load", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"dp_rank":0,"num_reqs":0,"num_waiting_reqs":0,"num_tokens":0}]`)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprintf(w, "sglang:num_requests_total{is_streaming=\"true\",model_name=\"tiny\"} %d.0\nsglang:generation_tokens_total{model_name=\"tiny\"} %d.0\n", f.finished, f.finished)
	})
	mux.HandleFunc("POST /flush_cache", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.bad--; f.bad >= 0 {
			http.Error(w, "Flush cache failed.", http.StatusBadRequest)
			return
		}
		clear(f.gpu)
		fmt.Fprint(w, "Cache flushed.")
	})
	mux.HandleFunc("POST /generate", f.generate)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.old && (r.URL.Path == "/server_info" || r.URL.Path == "/v1/loads") {
			http.NotFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

func (f *falseSGLang) generate(w http.ResponseWriter, r *http.Request) {
	var q struct {
		IDs  []int32 `json:"input_ids"`
		RID  string  `json:"rid"`
		Salt string  `json:"cache_salt"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || len(q.IDs) == 0 || !strings.HasPrefix(q.RID, schema.ReplayRequestIDPrefix) {
		http.Error(w, `{"error":{"message":"bad request"}}`, http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished++
	gpu := held(f.gpu, q.Salt, q.IDs, 16, 0)
	all := held(f.storage, q.Salt, q.IDs, 32, gpu)
	keep(f.gpu, q.Salt, q.IDs, 16)
	keep(f.storage, q.Salt, q.IDs, 32)
	details := "null"
	if all > 0 {
		details = fmt.Sprintf(`{"device":%d,"host":0,"storage":%d,"storage_backend":"HiCacheFile"}`, gpu, all-gpu)
	}
	event := f.event
	if event == "" {
		event = fmt.Sprintf(`{"text":":","output_ids":[25],"meta_info":{"id":%q,"finish_reason":{"type":"length","length":1},"prompt_tokens":%d,"completion_tokens":1,"cached_tokens":%d,"cached_tokens_details":%s}}`,
			q.RID, len(q.IDs), all, details)
	}
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", event)
}

func newSGLang(t *testing.T, f *falseSGLang, change func(*execute.ServingConfig)) *execute.Serving {
	cfg := vllmConfig(f.URL)
	if change != nil {
		change(&cfg)
	}
	e, err := execute.NewSGLang(cfg)
	require.NoError(t, err)
	require.NoError(t, e.Probe(t.Context()))
	return e
}

func TestSGLangPassesTheSuite(t *testing.T) {
	for _, old := range []bool{false, true} {
		executetest.Suite(t, servingLegs(), func(t *testing.T) execute.Executor {
			f := newFalseSGLang(t)
			f.old, f.bad = old, 2
			return newSGLang(t, f, nil)
		})
	}
}

func TestSGLangSaysWhatItCanForce(t *testing.T) {
	for name, c := range map[string]struct {
		info map[string]any
		can  string
		why  string
	}{
		"no storage":  {map[string]any{"hicache_storage_backend": nil}, "recompute route resident", "nothing would be left to fetch"},
		"no HiCache":  {map[string]any{"enable_hierarchical_cache": false}, "recompute route resident", "nothing would be left to fetch"},
		"no cache":    {map[string]any{"disable_radix_cache": true}, "recompute", "--disable-radix-cache"},
		"all of them": {nil, "fetch recompute route resident", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFalseSGLang(t)
			for k, v := range c.info {
				f.info[k] = v
			}
			var can, why []string
			for _, got := range newSGLang(t, f, nil).Capabilities()[:4] {
				if got.Can {
					can = append(can, got.Path.String())
				}
				why = append(why, got.Why)
			}
			assert.Equal(t, c.can, strings.Join(can, " "))
			assert.Contains(t, strings.Join(why, "; "), c.why)
		})
	}
	f := newFalseSGLang(t)
	f.info["enable_metrics"] = false
	e, err := execute.NewSGLang(vllmConfig(f.URL))
	require.NoError(t, err)
	assert.ErrorContains(t, e.Probe(t.Context()), "--enable-metrics")
}

func TestSGLangNotForced(t *testing.T) {
	f := newFalseSGLang(t)
	e := newSGLang(t, f, nil)
	for event, want := range map[string]error{
		`{"meta_info":{"prompt_tokens":75,"cached_tokens":16,"cached_tokens_details":{"device":16,"host":0}}}`:      execute.ErrNotForced,
		`{"meta_info":{"prompt_tokens":75,"cached_tokens":16}}`:                                                     execute.ErrNotForced,
		`{"meta_info":{"prompt_tokens":75,"cached_tokens":0,"finish_reason":{"type":"abort","status_code":503}}}`:   execute.ErrUnavailable,
		`{"meta_info":{"prompt_tokens":75,"cached_tokens":0,"finish_reason":{"type":"abort","message":"waiting"}}}`: execute.ErrUnavailable,
		`{"error":{"message":"out of memory"}}`:                                                                     nil,
		`{"meta_info":{}}`:                                                                                          nil,
	} {
		f.event = event
		_, err := run(t.Context(), e, servingLeg(schema.PathRecompute, 1, 70, 0, 0))
		require.Error(t, err, event)
		if want != nil {
			assert.ErrorIs(t, err, want)
		}
	}
}

// falseOpenAI is a server with the API and no more.
func falseOpenAI(t *testing.T, details string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"object":"list","data":[{"id":"some-model"}]}`)
			return
		}
		var q vllmRequest
		if r.Header.Get("Authorization") != "Bearer secret" || json.NewDecoder(r.Body).Decode(&q) != nil || q.Salt != "" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d%s}}\n\ndata: [DONE]\n\n", len(q.Prompt), details)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func newOpenAI(t *testing.T, url string) *execute.Serving {
	e, err := execute.NewOpenAI(execute.ServingConfig{
		Workers: []execute.ServingWorker{{Name: "w1", URL: url}, {Name: "w2", URL: url}}, Token: "secret", Vocab: llama.Vocab{First: 3, End: 500}, GateWait: time.Second,
	})
	require.NoError(t, err)
	require.NoError(t, e.Probe(t.Context()))
	return e
}

func TestOpenAIPassesTheSuite(t *testing.T) {
	legs := servingLegs()
	legs.Good, legs.LoadUnknown = legs.Good[:1], true
	for _, details := range []string{"", `,"prompt_tokens_details":{"cached_tokens":0}`} {
		executetest.Suite(t, legs, func(t *testing.T) execute.Executor { return newOpenAI(t, falseOpenAI(t, details)) })
	}
}

func TestOpenAIForcesRecomputesAlone(t *testing.T) {
	e := newOpenAI(t, falseOpenAI(t, ""))
	for _, leg := range servingLegs().Good[1:] {
		_, err := run(t.Context(), e, leg)
		assert.ErrorIs(t, err, execute.ErrRefused, leg.Path)
	}
	for _, c := range e.Capabilities() {
		assert.Equal(t, c.Path == schema.PathRecompute, c.Can, "%+v", c)
	}
	_, err := e.State(t.Context(), servingLegs().Good[0])
	assert.ErrorIs(t, err, execute.ErrNoState)
	_, err = run(t.Context(), newOpenAI(t, falseOpenAI(t, `,"prompt_tokens_details":{"cached_tokens":64}`)), servingLegs().Good[0])
	assert.ErrorIs(t, err, execute.ErrNotForced)
}
