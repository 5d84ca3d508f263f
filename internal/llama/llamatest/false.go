package llamatest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// False answers as a llama-server of build 11434 does (the bytes are cut down
// from recorded ones), computing nothing. Fault may answer in its place.
type False struct {
	URL     string
	SaveDir string
	Fault   func(w http.ResponseWriter, r *http.Request) (handled bool)

	mu        sync.Mutex
	slots     [2][]int32 // tokens that each holds
	computed  int
	generated int
	Busy      int // requests that it says it is at
}

// NewFalse starts one with two slots.
func NewFalse(t testing.TB) *False {
	f := &False{SaveDir: t.TempDir()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"ok"}`) })
	mux.HandleFunc("GET /slots", f.list)
	mux.HandleFunc("GET /metrics", f.metrics)
	mux.HandleFunc("POST /completion", f.complete)
	mux.HandleFunc("POST /slots/{id}", f.act)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.Fault == nil || !f.Fault(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

// Held is how many tokens a slot holds.
func (f *False) Held(slot int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.slots[slot])
}

// AddWork counts work that somebody else had done.
func (f *False) AddWork(tokens int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.computed += tokens
}

func (f *False) list(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, `[{"id":0,"n_ctx":4096,"is_processing":false,"n_prompt_tokens":%d},{"id":1,"n_ctx":4096,"is_processing":false,"n_prompt_tokens":%d}]`,
		f.Held(0), f.Held(1))
}

func (f *False) metrics(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(w, "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total %d\nllamacpp:tokens_predicted_total %d\n"+
		"llamacpp:requests_processing %d\nllamacpp:requests_deferred 0\n", f.computed, f.generated, f.Busy)
}

func (f *False) complete(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt []int32 `json:"prompt"`
		Slot   int     `json:"id_slot"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || len(q.Prompt) == 0 {
		http.Error(w, `{"error":{"code":400,"message":"\"prompt\" must not be empty"}}`, http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	cached := 0
	for held := f.slots[q.Slot]; cached < min(len(held), len(q.Prompt)) && held[cached] == q.Prompt[cached]; {
		cached++
	}
	cached = min(cached, len(q.Prompt)-1)
	f.slots[q.Slot] = q.Prompt
	f.computed += len(q.Prompt) - cached
	f.generated++
	f.mu.Unlock()
	n := len(q.Prompt)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, done := range []int{cached, n} {
		fmt.Fprintf(w, `data: {"content":"","tokens":[0],"stop":false,"prompt_progress":{"total":%d,"cache":%d,"processed":%d,"time_ms":0}}`+"\n\n", n, cached, done)
	}
	fmt.Fprint(w, `data: {"content":"t24.","tokens":[283],"stop":false,"tokens_predicted":1}`+"\n\n")
	fmt.Fprintf(w, `data: {"content":"","tokens":[],"stop":true,"tokens_evaluated":%d,"timings":{"cache_n":%d,"prompt_n":%d}}`+"\n\n", n, cached, n-cached)
}

func (f *False) act(w http.ResponseWriter, r *http.Request) {
	var q struct {
		File string `json:"filename"`
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	slot, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || slot < 0 || slot > 1 {
		http.Error(w, "Invalid slot ID", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	path := filepath.Join(f.SaveDir, q.File)
	switch r.URL.Query().Get("action") {
	case "erase":
		fmt.Fprintf(w, `{"id_slot":%d,"n_erased":%d}`, slot, len(f.slots[slot]))
		f.slots[slot] = nil
	case "save":
		text, _ := json.Marshal(f.slots[slot])
		if err := os.WriteFile(path, text, 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"n_saved":%d,"n_written":%d}`, len(f.slots[slot]), len(text))
	case "restore":
		text, _ := os.ReadFile(path)
		f.slots[slot] = nil
		if json.Unmarshal(text, &f.slots[slot]) != nil {
			http.Error(w, `{"error":{"code":400,"message":"Unable to restore slot"}}`, http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"n_restored":%d,"n_read":%d}`, len(f.slots[slot]), len(text))
	}
}
