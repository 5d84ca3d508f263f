package execute

import (
	"context"
	"math"
	"net/http"
)

// NewOpenAI makes an executor on any server with OpenAI's POST /v1/completions
// that takes prompts as token ids. It can force one path, recompute: each prompt
// is of random tokens, so no cache holds any of it; a server that says that it
// reused some after all (usage.prompt_tokens_details.cached_tokens) is ErrNotForced.
// Such a server does not say how loaded it is, so a leg runs at whatever load
// there is, and its state is not known. It asks no server yet.
func NewOpenAI(cfg ServingConfig) (*Serving, error) {
	return newServing("OpenAI", cfg, func(c *servingClient, cfg *ServingConfig) engine { return &openAI{c, cfg} })
}

type openAI struct {
	client *servingClient
	cfg    *ServingConfig
}

func (o *openAI) ask(ctx context.Context, q question) (served, error) {
	body := map[string]any{
		"model": q.model, "prompt": q.prompt, "max_tokens": 1, "temperature": 0,
		"stream": true, "stream_options": map[string]any{"include_usage": true},
	}
	a := newServed()
	var err error
	a.sent, a.first, err = o.client.stream(ctx, "/v1/completions", http.Header{"X-Request-Id": {q.id}}, body, a.take)
	return a, err
}

func (o *openAI) load(context.Context) (running, waiting float64, err error) {
	return math.NaN(), math.NaN(), nil
}

func (o *openAI) counters(context.Context) (*counters, error) { return nil, nil }

func (o *openAI) drop(context.Context) (bool, error) { return false, ErrRefused }

// probe asks for the model's name alone.
func (o *openAI) probe(ctx context.Context) (f facts, err error) {
	f.version = "API"
	f.resident = "what answers may be one of many servers, and no part of the API says which one holds a prefix"
	f.fetch = "no part of the API puts a prefix into a tier, or says where one was found"
	f.model, err = servedModel(ctx, o.client, o.cfg.Model)
	return f, err
}
