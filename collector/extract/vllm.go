package extract

import (
	"strings"

	"github.com/kvwhatif/kvwhatif/schema"
)

// vllm reads the span that vLLM writes for each request that it finished, seen
// with 0.32.0. It says nothing of where cached tokens came from, and its time in
// queue includes the wait for an asynchronous load of KV.
var vllm = adapter{
	name: "vllm",
	span: "llm_request",
	kind: schema.KindEngine,
	rules: rulesOf(sets{
		"gen_ai.request.id":              text(func(p *schema.Part) *string { return &p.RequestID }),
		"gen_ai.response.model":          text(func(p *schema.Part) *string { return &p.Engine.Model }),
		schema.AttrGenAIModel:            by(func(r *reading, v Value) *fault { return r.text(v, &r.genAI.model) }),
		"gen_ai.usage.prompt_tokens":     count(func(p *schema.Part) *schema.Count { return &p.Engine.TokensPrompt }),
		schema.AttrGenAIInputTokens:      by(func(r *reading, v Value) *fault { return r.count(v, &r.genAI.prompt, r.limits.Count) }),
		schema.AttrGenAICacheRead:        count(func(p *schema.Part) *schema.Count { return &p.Engine.TokensCached }),
		"gen_ai.usage.completion_tokens": count(func(p *schema.Part) *schema.Count { return &p.Engine.TokensOutput }),

		"gen_ai.latency.time_in_queue":         seconds(func(p *schema.Part) *schema.Seconds { return &p.Engine.Queue }),
		"gen_ai.latency.time_in_model_prefill": seconds(func(p *schema.Part) *schema.Seconds { return &p.Engine.Prefill }),
		"gen_ai.latency.time_in_model_decode":  seconds(func(p *schema.Part) *schema.Seconds { return &p.Engine.Decode }),
		"gen_ai.latency.time_to_first_token":   seconds(func(p *schema.Part) *schema.Seconds { return &p.Engine.TTFT }),
		"gen_ai.latency.e2e":                   seconds(func(p *schema.Part) *schema.Seconds { return &p.Engine.E2E }),
	}),
	finish: func(r *reading) *fault {
		e := &r.p.Engine
		if e.Model == "" {
			e.Model = r.genAI.model
		}
		if !e.TokensPrompt.OK {
			e.TokensPrompt = r.genAI.prompt
		}
		r.p.RequestID = vllmRequestID(r.p.RequestID)
		return nil
	},
}

// vllmRequestID makes of vLLM's own id the one that its client was told, so that
// they can be joined. vLLM adds the index of the prompt to the id of a
// completion ("cmpl-X-0"; those after the first keep theirs), and puts the kind
// of call before an id that the client chose, so that a replay's leg would not
// begin as one.
func vllmRequestID(id string) string {
	if strings.HasPrefix(id, "cmpl-") {
		id = strings.TrimSuffix(id, "-0")
	}
	for _, call := range [...]string{"cmpl-", "chatcmpl-"} {
		if own, ok := strings.CutPrefix(id, call); ok && strings.HasPrefix(own, schema.ReplayRequestIDPrefix) {
			return own
		}
	}
	return id
}
