package execute

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/kvwhatif/kvwhatif/schema"
)

// NewSGLang makes an executor on SGLang servers, written to the source of SGLang
// 0.5.23 and tested against exchanges made by hand from it: no real server has
// been tried. It uses /generate with input_ids, and takes from meta_info which
// cache each token came from. A leg's tokens are random, beside its extra_key and
// cache_salt, which older versions ignore. A fetch needs HiCache with a storage
// backend: /flush_cache empties the GPU and the host's memory alike, so nothing
// can be fetched from the host alone. It asks no server yet.
func NewSGLang(cfg ServingConfig) (*Serving, error) {
	return newServing("SGLang", cfg, func(c *servingClient, cfg *ServingConfig) engine { return &sglang{c, cfg} })
}

type sglang struct {
	client *servingClient
	cfg    *ServingConfig
}

// sglangEvent is one event of /generate. Its details are there where something was
// cached, and storage in them where there is a storage backend.
type sglangEvent struct {
	Meta *struct {
		Prompt  *int64 `json:"prompt_tokens"`
		Cached  *int64 `json:"cached_tokens"`
		Details *struct {
			Device  int64 `json:"device"`
			Host    int64 `json:"host"`
			Storage int64 `json:"storage"`
		} `json:"cached_tokens_details"`
		Finish *struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Status  int    `json:"status_code"`
		} `json:"finish_reason"`
	} `json:"meta_info"`
	Error *openAIError `json:"error"`
}

// takeSGLang reads an event. Tokens found in storage or in the host's memory were
// moved to the GPU for this request.
func (a *served) takeSGLang(event []byte) (token bool, err error) {
	var e sglangEvent
	if err := json.Unmarshal(event, &e); err != nil {
		return false, fmt.Errorf("%w: %w: %.200q", errAnswer, err, event)
	}
	if e.Error != nil {
		return false, &statusError{http.StatusInternalServerError, e.Error.Message}
	}
	m := e.Meta
	if m == nil || m.Prompt == nil || m.Cached == nil {
		return false, fmt.Errorf("%w: no prompt_tokens and cached_tokens in meta_info: %.200q", errAnswer, event)
	}
	if f := m.Finish; f != nil && f.Type == "abort" {
		status := f.Status
		if status == 0 {
			status = http.StatusServiceUnavailable
		}
		return false, &statusError{status, "aborted: " + f.Message}
	}
	a.prompt, a.cached = *m.Prompt, *m.Cached
	switch d := m.Details; {
	case d != nil:
		a.local, a.external = d.Device, d.Host+d.Storage
	case a.cached == 0:
		a.local, a.external = 0, 0
	}
	return true, nil
}

func (s *sglang) ask(ctx context.Context, q question) (served, error) {
	body := map[string]any{
		"input_ids": q.prompt, "rid": q.id, "stream": true, "extra_key": q.salt, "cache_salt": q.salt,
		"sampling_params": map[string]any{"max_new_tokens": 1, "min_new_tokens": 1, "ignore_eos": true, "temperature": 0},
	}
	a := newServed()
	var err error
	a.sent, a.first, err = s.client.stream(ctx, "/generate", nil, body, a.takeSGLang)
	return a, err
}

// load reads /v1/loads, or of older versions /get_load.
func (s *sglang) load(ctx context.Context) (running, waiting float64, err error) {
	type rank struct {
		Running *float64 `json:"num_running_reqs"`
		All     *float64 `json:"num_reqs"` // of older versions: those that wait too
		Waiting float64  `json:"num_waiting_reqs"`
	}
	var new struct{ Loads []rank }
	ranks := &new.Loads
	err = s.client.getJSON(ctx, "/v1/loads?include=core", &new)
	if statusOfError(err) == http.StatusNotFound {
		var old []rank
		ranks, err = &old, s.client.getJSON(ctx, "/get_load", &old)
	}
	if err != nil {
		return 0, 0, err
	}
	for _, r := range *ranks {
		switch {
		case r.Running != nil:
			running += *r.Running
			waiting += r.Waiting
		case r.All != nil:
			running += *r.All
		default:
			return 0, 0, fmt.Errorf("GET /v1/loads: %w: no num_running_reqs", errAnswer)
		}
	}
	if len(*ranks) == 0 {
		return 0, 0, fmt.Errorf("GET /v1/loads: %w: no load of any rank", errAnswer)
	}
	return running, waiting, nil
}

// counters are those of --enable-metrics. They say whether a leg ran alone; what
// it reused its own answer says.
func (s *sglang) counters(ctx context.Context) (*counters, error) {
	running, waiting, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	text, err := s.client.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	m, err := parseMetrics(bytes.NewReader(text), "sglang:")
	if err != nil {
		return nil, err
	}
	// A counter with labels is not written before its first request.
	return &counters{finished: m["sglang:num_requests_total"], generated: m["sglang:generation_tokens_total"], running: running + waiting}, nil
}

// drop empties the GPU's and the host's cache; 400 says that it is not idle.
func (s *sglang) drop(ctx context.Context) (bool, error) {
	_, err := s.client.body(ctx, http.MethodPost, "/flush_cache", nil, nil)
	if statusOfError(err) == http.StatusBadRequest {
		return false, nil
	}
	return err == nil, err
}

// sglangInfo is what /server_info says of a server's settings.
type sglangInfo struct {
	Version      string  `json:"version"`
	Name         string  `json:"served_model_name"`
	Page         int     `json:"page_size"`
	NoCache      bool    `json:"disable_radix_cache"`
	Hierarchical bool    `json:"enable_hierarchical_cache"`
	Storage      *string `json:"hicache_storage_backend"`
	Metrics      bool    `json:"enable_metrics"`
}

// probe reads the server's settings: it runs nothing.
func (s *sglang) probe(ctx context.Context) (f facts, err error) {
	var info sglangInfo
	err = s.client.getJSON(ctx, "/server_info", &info)
	if statusOfError(err) == http.StatusNotFound {
		err = s.client.getJSON(ctx, "/get_server_info", &info)
	}
	if err != nil {
		return f, err
	}
	if s.cfg.Model != "" && s.cfg.Model != info.Name {
		return f, fmt.Errorf("%w: the server has no model %q, but %q", ErrRefused, s.cfg.Model, info.Name)
	}
	if !info.Metrics {
		return f, errors.Join(ErrRefused, errors.New("the server has no metrics, so nobody knows whether a leg ran alone: start it with --enable-metrics"))
	}
	f.version, f.model, f.block = info.Version, info.Name, max(1, info.Page)
	if info.NoCache {
		f.resident = "the server keeps no prefixes: it was started with --disable-radix-cache"
	}
	switch {
	case f.resident != "":
		f.fetch = f.resident
	case !info.Hierarchical || info.Storage == nil || *info.Storage == "":
		f.fetch = "the server has no HiCache storage backend, and /flush_cache empties the host's memory with the GPU's: nothing would be left to fetch"
	case s.cfg.External == schema.TierNone:
		f.fetch = "nobody says of which tier the storage backend is"
	case !s.cfg.MayDrop:
		f.fetch = "a fetch needs a prefix that is not in the engine's own cache, and that cache may not be dropped, for production's blocks would go too"
	}
	return f, nil
}
