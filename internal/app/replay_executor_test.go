package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
)

func TestExecutorIsWhatItsURLSays(t *testing.T) {
	for text, want := range map[string][]string{
		"vllm+http://10.0.0.1:8000":                                {"10.0.0.1:8000 recompute"},
		"w1=sglang+http://10.0.0.1:8000, w2=sglang+https://b:8443": {"w1 recompute", "w2 recompute"},
		"a=openai+http://10.0.0.1:8000/prefix":                     {"a recompute"},
	} {
		ex, err := ReplaySettings{Executor: text, Engine: EngineSettings{Tier: "cpu", Tokens: "3-500"}}.executor()
		require.NoError(t, err, text)
		var got []string
		for _, c := range ex.(execute.Capable).Capabilities() {
			if c.Path.String() == "recompute" {
				got = append(got, c.Worker+" recompute")
			}
		}
		assert.Equal(t, want, got)
	}
	ex, err := ReplaySettings{Executor: "http://127.0.0.1:8090/?a=b+c"}.executor()
	require.NoError(t, err)
	assert.IsType(t, &execute.Simulator{}, ex)
	for text, says := range map[string]string{
		"":                                  "--executor",
		"nobody":                            "no address",
		"vllm+ftp://a":                      "no address",
		"vllm+http://a,http://b":            "no server",
		"vllm+http://a:1,sglang+http://b:2": "another engine",
		"vllm+http://a:1,vllm+http://a:1":   "a name of its own",
		"x=tgi+http://a":                    "no server",
	} {
		_, err := ReplaySettings{Executor: text}.executor()
		assert.ErrorContains(t, err, says, text)
	}
	for says, e := range map[string]EngineSettings{"engine.tier": {Tier: "tape"}, "engine.tokens": {Tokens: "500-3"}} {
		_, err := ReplaySettings{Executor: "vllm+http://a:1", Engine: e}.executor()
		assert.ErrorContains(t, err, says)
	}
}
