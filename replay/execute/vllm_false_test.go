package execute_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// falseVLLM answers as vLLM 0.32 does (the bytes are cut down from recorded ones),
// with its own cache of blocks of 16 tokens and, where external, one beside it of
// 32. A fault may answer in its place.
type falseVLLM struct {
	URL      string
	external bool
	priority bool // it schedules by priority
	silent   bool // it does not say how many tokens were cached
	unsalted bool // it ignores cache_salt
	nodev    bool // it has no /reset_prefix_cache

	mu                   sync.Mutex
	fault                func(w http.ResponseWriter, r *http.Request) (handled bool)
	local, beside        map[string]bool // prefixes of whole blocks
	hits, asked, fetched int
	finished             int
	Busy                 int
	ids                  []string // of requests
	salts                map[string]bool
}

func newFalseVLLM(t testing.TB) *falseVLLM {
	f := &falseVLLM{local: map[string]bool{}, beside: map[string]bool{}, salts: map[string]bool{}, priority: true}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"0.32.0"}`) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"tiny","object":"model","max_model_len":8192}]}`)
	})
	mux.HandleFunc("GET /metrics", f.metrics)
	mux.HandleFunc("POST /v1/completions", f.complete)
	mux.HandleFunc("POST /reset_prefix_cache", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.local)
		fmt.Fprint(w, `{"success":true}`)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		fault := f.fault
		f.mu.Unlock()
		switch {
		case fault != nil && fault(w, r):
		case f.nodev && r.URL.Path == "/reset_prefix_cache":
			http.NotFound(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

func (f *falseVLLM) metrics(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := `{engine="0",model_name="tiny"}`
	fmt.Fprintf(w, "# TYPE vllm:cache_config_info gauge\n"+`vllm:cache_config_info{_block_size_resolved="True",block_size="16",enable_prefix_caching="True",engine="0",x="a } b"} 1.0`+"\n")
	for name, v := range map[string]int{
		"num_requests_running": f.Busy, "num_requests_waiting": 0, "generation_tokens_total": f.finished,
		"prefix_cache_hits_total": f.hits, "external_prefix_cache_hits_total": f.fetched, "external_prefix_cache_queries_total": f.asked,
		"request_queue_time_seconds_count": f.finished, "request_prefill_time_seconds_count": f.finished,
	} {
		fmt.Fprintf(w, "vllm:%s%s %d.0\n", name, at, v)
	}
	fmt.Fprintf(w, "vllm:request_success_total{finished_reason=\"stop\"} 0.0\nvllm:request_success_total{finished_reason=\"length\"} %d.0\n", f.finished)
	fmt.Fprintf(w, "vllm:request_queue_time_seconds_sum%s %e\nvllm:request_prefill_time_seconds_sum%s %e\n", at, 1e-6*float64(f.finished), at, 2e-6*float64(f.finished))
}

type vllmRequest struct {
	Prompt   []int32 `json:"prompt"`
	Salt     string  `json:"cache_salt"`
	Priority int     `json:"priority"`
}

func (f *falseVLLM) complete(w http.ResponseWriter, r *http.Request) {
	var q vllmRequest
	if json.NewDecoder(r.Body).Decode(&q) != nil || len(q.Prompt) == 0 {
		http.Error(w, `{"error":{"message":"bad","type":"BadRequestError","code":400}}`, http.StatusBadRequest)
		return
	}
	if q.Priority != 0 && !f.priority {
		http.Error(w, `{"error":{"message":"Got priority 1 but Priority scheduling is not enabled.","type":"BadRequestError","code":400}}`, http.StatusBadRequest)
		return
	}
	cached := f.work(r.Header.Get("X-Request-Id"), &q)
	details := fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, cached)
	if f.silent {
		details = ""
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, `data: {"id":"cmpl-x","object":"text_completion","choices":[{"index":0,"text":":","finish_reason":"length"}]}`+"\n\n")
	fmt.Fprintf(w, `data: {"id":"cmpl-x","choices":[],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":1%s}}`+"\n\ndata: [DONE]\n\n", len(q.Prompt), len(q.Prompt)+1, details)
}

// work finds what is held of a prompt, and holds it.
func (f *falseVLLM) work(id string, q *vllmRequest) (cached int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	salt := q.Salt
	if f.unsalted {
		salt = ""
	}
	f.ids, f.salts[q.Salt] = append(f.ids, id), true
	local := held(f.local, salt, q.Prompt, 16, 0)
	beside := local
	if f.external {
		f.asked += len(q.Prompt) - local
		beside = held(f.beside, salt, q.Prompt, 32, local)
	}
	f.hits += local
	f.fetched += beside - local
	f.finished++
	keep(f.local, salt, q.Prompt, 16)
	keep(f.beside, salt, q.Prompt, 32)
	return beside
}

func held(in map[string]bool, salt string, prompt []int32, block, from int) int {
	n := from
	for k := (from/block + 1) * block; k < len(prompt) && in[prefixKey(salt, prompt[:k])]; k += block {
		n = k
	}
	return n
}

func keep(in map[string]bool, salt string, prompt []int32, block int) {
	for k := block; k <= len(prompt); k += block {
		in[prefixKey(salt, prompt[:k])] = true
	}
}

func prefixKey(salt string, prompt []int32) string {
	return salt + strings.Trim(fmt.Sprint(prompt), "[]")
}

// setFault has f answer in the server's place where it returns true; nil: nobody.
func (f *falseVLLM) setFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// lose empties the cache beside the engine.
func (f *falseVLLM) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.beside)
}

// addWork counts requests that somebody else had done, in n tokens of hits.
func (f *falseVLLM) addWork(requests, hits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished += requests
	f.hits += hits
}
