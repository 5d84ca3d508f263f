package execute

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/kvwhatif/kvwhatif/schema"
)

// NewVLLM makes an executor on vLLM servers (tried on 0.32). Paths are forced by
// cache_salt: under a salt of its own a prompt finds nothing, or only what the leg
// put there. A fetch needs a KV connector that keeps prefixes under their salts,
// such as LMCache's, the development endpoint POST /reset_prefix_cache
// (VLLM_SERVER_DEV_MODE=1), and MayDrop. It asks no server yet.
func NewVLLM(cfg ServingConfig) (*Serving, error) {
	return newServing("vLLM", cfg, func(c *servingClient, cfg *ServingConfig) engine { return &vllm{c, cfg} })
}

type vllm struct {
	client *servingClient
	cfg    *ServingConfig
}

// lowPriority is a leg's where the server schedules by priority, which puts the
// lowest number first; production's is 0 unless it says otherwise.
const lowPriority = 1 << 20

type openAIEvent struct {
	Choices []struct {
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt  int64 `json:"prompt_tokens"`
		Details *struct {
			Cached *int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *openAIError `json:"error"`
}

type openAIError struct {
	Message string `json:"message"`
	Code    any    `json:"code"` // a number, or a word
}

// take reads an event of a stream of completions.
func (a *served) take(event []byte) (token bool, err error) {
	var e openAIEvent
	if err := json.Unmarshal(event, &e); err != nil {
		return false, fmt.Errorf("%w: %w: %.200q", errAnswer, err, event)
	}
	if e.Error != nil {
		status, ok := e.Error.Code.(float64)
		if !ok {
			status = http.StatusInternalServerError
		}
		return false, &statusError{int(status), e.Error.Message}
	}
	if u := e.Usage; u != nil {
		a.prompt = u.Prompt
		if u.Details != nil && u.Details.Cached != nil {
			a.cached = *u.Details.Cached
		}
	}
	return len(e.Choices) > 0, nil
}

func (v *vllm) ask(ctx context.Context, q question) (served, error) {
	body := map[string]any{
		"model": q.model, "prompt": q.prompt, "max_tokens": 1, "min_tokens": 1, "ignore_eos": true, "temperature": 0,
		"stream": true, "stream_options": map[string]any{"include_usage": true}, "cache_salt": q.salt,
	}
	if q.priority {
		body["priority"] = lowPriority
	}
	if len(v.cfg.Params) > 0 {
		body["kv_transfer_params"] = v.cfg.Params
	}
	a := newServed()
	var err error
	a.sent, a.first, err = v.client.stream(ctx, "/v1/completions", http.Header{"X-Request-Id": {q.id}}, body, a.take)
	return a, err
}

func (v *vllm) load(ctx context.Context) (running, waiting float64, err error) {
	m, err := v.metrics(ctx)
	return m["vllm:num_requests_running"], m["vllm:num_requests_waiting"], err
}

func (v *vllm) counters(ctx context.Context) (*counters, error) {
	m, err := v.metrics(ctx)
	if err != nil {
		return nil, err
	}
	return &counters{
		finished: m["vllm:request_success_total"], generated: m["vllm:generation_tokens_total"],
		local: m["vllm:prefix_cache_hits_total"], external: m["vllm:external_prefix_cache_hits_total"],
		asked:      m["vllm:external_prefix_cache_queries_total"],
		running:    m["vllm:num_requests_running"] + m["vllm:num_requests_waiting"],
		queueCount: m["vllm:request_queue_time_seconds_count"], queueSum: m["vllm:request_queue_time_seconds_sum"],
		prefillCount: m["vllm:request_prefill_time_seconds_count"], prefillSum: m["vllm:request_prefill_time_seconds_sum"],
	}, nil
}

// metrics reads /metrics. Without them nobody knows whether a leg ran alone.
func (v *vllm) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := v.client.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	m, err := parseMetrics(bytes.NewReader(text), "vllm:")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"vllm:num_requests_running", "vllm:request_success_total", "vllm:prefix_cache_hits_total"} {
		if _, ok := m[name]; !ok {
			return nil, fmt.Errorf("GET /metrics: %w: no %s; start vLLM without --disable-log-stats, and 0.10 or later", errAnswer, name)
		}
	}
	return m, nil
}

func (v *vllm) drop(ctx context.Context) (bool, error) {
	body, err := v.client.body(ctx, http.MethodPost, "/reset_prefix_cache", nil, nil)
	if err != nil {
		return false, err
	}
	var out struct {
		Success *bool `json:"success"`
	}
	// Versions before 0.17 answer with an empty body, and drop or log that they did not.
	if len(bytes.TrimSpace(body)) == 0 {
		return true, nil
	}
	if err := json.Unmarshal(body, &out); err != nil || out.Success == nil {
		return false, fmt.Errorf("POST /reset_prefix_cache: %w: %.200q", errAnswer, body)
	}
	return *out.Success, nil
}

// probe runs three requests of two blocks: under one salt, under another, and
// under the first again. What they find says whether salts part prompts, whether
// the server caches at all, and whether it asks a cache beside it.
func (v *vllm) probe(ctx context.Context) (f facts, err error) {
	var version struct{ Version string }
	if err := v.client.getJSON(ctx, "/version", &version); err != nil {
		return f, err
	}
	f.version = version.Version
	if f.model, err = servedModel(ctx, v.client, v.cfg.Model); err != nil {
		return f, err
	}
	if f.block, err = v.blockTokens(ctx); err != nil {
		return f, err
	}
	return f, v.probeSalts(ctx, &f)
}

func (v *vllm) probeSalts(ctx context.Context, f *facts) error {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails
	id := hex.EncodeToString(nonce[:])
	q := question{
		id: schema.ReplayRequestIDPrefix + "probe-" + id, model: f.model, salt: id + "-a",
		prompt: v.cfg.Vocab.Suffix("probe", id, 2*f.block+1),
	}
	_, cold, err := watched(ctx, v, q)
	if err != nil {
		return err
	}
	q.salt = id + "-b"
	_, other, err := watched(ctx, v, q)
	if err != nil {
		return err
	}
	q.salt, q.priority = id+"-a", true
	_, again, err := watched(ctx, v, q)
	f.priority = err == nil
	if errors.Is(err, ErrRefused) { // without --scheduling-policy priority
		q.priority = false
		_, again, err = watched(ctx, v, q)
	}
	if err != nil {
		return err
	}
	f.judge(&cold, &other, &again)
	return v.judgeFetch(ctx, f, &cold)
}

// judge says what the three requests of a probe showed.
func (f *facts) judge(cold, other, again *reused) {
	f.salted = cold.cached <= 0 && other.cached <= 0
	switch {
	case cold.cached < 0 || other.cached < 0 || again.cached < 0:
		f.resident = "the server does not say how many tokens it reused, or was busy while it was probed: start it with --enable-prompt-tokens-details"
	case again.cached == 0:
		f.resident = "the server found nothing of a prompt that it had just computed: start it with --enable-prefix-caching"
	}
}

func (v *vllm) judgeFetch(ctx context.Context, f *facts, cold *reused) error {
	switch {
	case !f.salted:
		f.fetch = "the server ignores cache_salt: vLLM 0.9 or later is needed"
	case f.resident != "":
		f.fetch = f.resident
	case cold.asked <= 0:
		f.fetch = "the server has no KV connector: nothing is looked up beside its own cache"
	case v.cfg.External == schema.TierNone:
		f.fetch = "nobody says of which tier the cache beside the engine is"
	case !v.cfg.MayDrop:
		f.fetch = "a fetch needs a prefix that is not in the engine's own cache, and that cache may not be dropped, for production's blocks would go too"
	default:
		// GET asks whether the endpoint is there, and does nothing.
		_, err := v.client.get(ctx, "/reset_prefix_cache")
		switch status := statusOfError(err); {
		case err == nil, status == http.StatusMethodNotAllowed:
		case status == http.StatusNotFound:
			f.fetch = "the server has no /reset_prefix_cache: start it with VLLM_SERVER_DEV_MODE=1"
		default:
			return err
		}
	}
	return nil
}
