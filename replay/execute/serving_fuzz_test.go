package execute

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// Whatever a server streams, reading it ends, with an error or with counts that
// can be.
func FuzzServedEvents(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"text":":","finish_reason":"length"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}`,
		`{"error":{"message":"out of vocabulary","code":400}}`, `{"error":{"message":"x","code":"y"}}`, `{`, `null`,
		`{"meta_info":{"prompt_tokens":75,"cached_tokens":64,"cached_tokens_details":{"device":0,"host":0,"storage":64}}}`,
		`{"meta_info":{"prompt_tokens":75,"cached_tokens":0,"finish_reason":{"type":"abort","status_code":503}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		for _, take := range []func(*served, []byte) (bool, error){(*served).take, (*served).takeSGLang} {
			a := newServed()
			if token, err := take(&a, event); err != nil && token {
				t.Fatalf("a token and an error: %v", err)
			} else if status := statusOfError(err); err != nil && status == 0 && !errors.Is(err, errAnswer) {
				t.Fatalf("an error of no kind: %v", err)
			}
		}
	})
}

func FuzzServedMetrics(f *testing.F) {
	for _, seed := range []string{
		"# HELP x\nvllm:num_requests_running{engine=\"0\"} 1.0\n", "vllm:x{a=\"} b\"} 1e-6 123\nvllm:x 2\n", "vllm:x", "vllm:x{ 1", "vllm: NaN",
		"vllm:cache_config_info{_block_size_resolved=\"True\",block_size=\"128\"} 1.0\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMetrics(bytes.NewReader(text), "vllm:")
		if (err == nil) != (m != nil) {
			t.Fatalf("%v and %v", m, err)
		}
		_ = label(text, "vllm:cache_config_info", "block_size")
	})
}

func TestParseMetrics(t *testing.T) {
	text := "# TYPE vllm:a counter\nvllm:a{m=\"x\",n=\"} 9\"} 1.5\nvllm:a{m=\"y\"} 2e0 1700000000\nvllm:b 7\nother 3\nvllm:c{block_size_x=\"1\",block_size=\"128\"} NaN\n"
	m, err := parseMetrics(bytes.NewReader([]byte(text)), "vllm:")
	if err != nil || m["vllm:a"] != 3.5 || m["vllm:b"] != 7 || !math.IsNaN(m["vllm:c"]) || len(m) != 3 {
		t.Fatalf("%v, %v", m, err)
	}
	if got := label([]byte(text), "vllm:c", "block_size"); got != "128" {
		t.Fatalf("block_size is %q", got)
	}
}
