package app

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
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

// llamaSettings are complete ones for workers w1 and w2.
func llamaSettings(dir string) ReplaySettings {
	return ReplaySettings{
		Executor: "w1=llamacpp+http://10.0.0.1:8080,w2=llamacpp+http://10.0.0.2:8080",
		Engine: EngineSettings{Tier: "disk", Llama: LlamaSettings{
			Slot: "1", SavePath: []string{"/srv/slots", "w2=/srv/w2"}, TierDir: dir, TierRate: 1e9, TierLinks: []string{"rack-2", "rack-1"},
		}},
	}
}

func TestExecutorOnLlamaServers(t *testing.T) {
	dir := t.TempDir()
	ex, err := llamaSettings(dir).executor()
	require.NoError(t, err)
	for _, c := range ex.(execute.Capable).Capabilities() {
		assert.True(t, c.Can, "%s on %s: %s", c.Path, c.Worker, c.Why)
	}
	var links []string
	for _, n := range ex.(execute.Keeper).Namespaces() {
		links = append(links, n.Tier+" over "+n.Link)
		assert.DirExists(t, filepath.Join(dir, n.Link))
	}
	assert.Equal(t, []string{"disk over rack-1", "disk over rack-2"}, links)

	none := llamaSettings(dir)
	none.Engine.Tier, none.Engine.Llama.TierDir, none.Engine.Llama.TierRate, none.Engine.Llama.TierLinks = "", "", 0, nil
	ex, err = none.executor()
	require.NoError(t, err)
	for _, c := range ex.(execute.Capable).Capabilities() {
		assert.Equal(t, c.Path != schema.PathFetch, c.Can, "%s on %s: %s", c.Path, c.Worker, c.Why)
	}
}

func TestLlamaSettingsThatDoNotDo(t *testing.T) {
	for says, change := range map[string]func(*EngineSettings){
		"llama.slot is":                  func(e *EngineSettings) { e.Llama.Slot = "" },
		"llama.slot is \"-1\"":           func(e *EngineSettings) { e.Llama.Slot = "-1" },
		"no directory for worker \"w1\"": func(e *EngineSettings) { e.Llama.SavePath = []string{"w2=/srv/w2"} },
		"--executor does not have":       func(e *EngineSettings) { e.Llama.SavePath = []string{"/srv", "w3=/srv/w3"} },
		"one directory for all":          func(e *EngineSettings) { e.Llama.SavePath = []string{"/a", "/b"} },
		"fetches need all":               func(e *EngineSettings) { e.Tier = "" },
		"tier_rate (such as":             func(e *EngineSettings) { e.Llama.TierRate = 0 },
		"tier_links":                     func(e *EngineSettings) { e.Llama.TierLinks = nil },
		"name a link":                    func(e *EngineSettings) { e.Llama.TierLinks = []string{".."} },
		"not for llama.cpp":              func(e *EngineSettings) { e.Token = "secret" },
		"engine.tier is":                 func(e *EngineSettings) { e.Tier = "tape" },
	} {
		s := llamaSettings(t.TempDir())
		change(&s.Engine)
		_, err := s.executor()
		assert.ErrorContains(t, err, says)
	}
}
