package execute_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// The recordings are of real servers: see testdata/README.md.
const (
	vllmAlone   = "testdata/vllm_alone.json"
	vllmLMCache = "testdata/vllm_lmcache.json"
)

func TestRecordedVLLM(t *testing.T) {
	url, _ := replayed(t, vllmAlone)
	tryVLLM(t, url, false)
}

func TestRecordedVLLMWithLMCache(t *testing.T) {
	url, _ := replayed(t, vllmLMCache)
	tryVLLM(t, url, true)
}

var tinyVocab = llama.Vocab{First: 3, End: 500}

// production asks as somebody who serves would, and gives the tokens found in any
// cache.
func production(t *testing.T, url string, prompt []int32) (cached int64) {
	body, err := json.Marshal(map[string]any{"model": "tiny", "prompt": prompt, "max_tokens": 1, "temperature": 0})
	require.NoError(t, err)
	resp, err := http.Post(url+"/v1/completions", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var out struct {
		Usage struct {
			Details struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &out), string(text))
	return out.Usage.Details.Cached
}

// tryVLLM forces rejected fetches and recomputes on a server, measures them, and
// proves that production neither hits what they left nor loses what it had. Blocks
// are of 128 tokens there, and LMCache's of 256.
func tryVLLM(t *testing.T, url string, lmcache bool) {
	own := tinyVocab.Prefix([]int64{1, 2, 3}, 1024, 2049)
	require.Zero(t, production(t, url, own))
	require.EqualValues(t, 2048, production(t, url, own))
	e, err := execute.NewVLLM(execute.ServingConfig{
		Workers: []execute.ServingWorker{{Name: "w1", URL: url}}, BlockTokens: 256, Vocab: tinyVocab, GateWait: time.Minute,
		External: schema.TierCPU, MayDrop: lmcache,
	})
	require.NoError(t, err)
	require.NoError(t, e.Probe(t.Context()))
	for _, c := range e.Capabilities() {
		want := c.Path == schema.PathRecompute || c.Path == schema.PathResident || c.Path == schema.PathFetch && lmcache
		assert.Equal(t, want, c.Can, "%+v", c)
	}
	var legs []execute.Leg
	for i, n := range []int64{512, 2048, 6144} {
		legs = append(legs, servingLeg(schema.PathRecompute, byte(10+i), n, 0, 0), servingLeg(schema.PathResident, byte(20+i), n, n, 0))
		if lmcache {
			legs = append(legs, servingLeg(schema.PathFetch, byte(30+i), n, 0, n), servingLeg(schema.PathFetch, byte(40+i), n, 256, n-256))
		}
	}
	for i := range legs { // no two begin alike, so that production's own requests below do not hit each other
		legs[i].PrefixBlocks = []int64{int64(100 + i), 8}
	}
	took := measureLegs(t, e, legs)
	assert.Less(t, took["resident 6144"], took["recompute 6144"])
	if lmcache {
		assert.Less(t, took["fetch 6144"], took["recompute 6144"])
		loseFetched(t, e, url)
	}
	for _, leg := range legs {
		if leg.Path == schema.PathRecompute {
			prompt := tinyVocab.Prefix(leg.PrefixBlocks, 256, int(leg.TokensPrefix))
			assert.Zero(t, production(t, url, prompt), "production hits what a leg computed")
		}
	}
	assert.EqualValues(t, 2048, production(t, url, own), "production has what it had, in one cache or the other")
}

// measureLegs runs legs, again where the server was not quiet, and prints them.
func measureLegs(t *testing.T, e *execute.Serving, legs []execute.Leg) map[string]float64 {
	took := map[string]float64{}
	for _, leg := range legs {
		r, err := run(t.Context(), e, leg)
		for tries := 0; errors.Is(err, execute.ErrNotForced) && leg.Path == schema.PathFetch && tries < 3; tries++ {
			r, err = run(t.Context(), e, leg) // LMCache had not kept it yet
		}
		require.NoError(t, err)
		require.NoError(t, r.Check())
		o := r.Observed
		assert.Equal(t, leg.Path != schema.PathFetch, o.GPUQueue.OK, "the engine's wait")
		assert.True(t, o.Prefill.OK)
		t.Logf("%-9s resident %4d fetched %4d computed %4d: TTFT %7.1f ms, prefill %7.1f ms, wait %5.1f ms, charged %.3f GPU-seconds and %.0f bytes",
			leg.Path, leg.Candidate.TokensResident, leg.Candidate.TokensFetched, leg.Candidate.TokensComputed,
			o.TTFT.V*1e3, o.Prefill.V*1e3, o.GPUQueue.V*1e3, r.Cost.GPUSeconds, r.Cost.Bytes)
		if leg.Path != schema.PathFetch || leg.Candidate.TokensResident == 0 {
			took[fmt.Sprintf("%s %d", leg.Path, leg.TokensPrefix)] = o.Prefill.V
		}
	}
	return took
}

// loseFetched drops what a leg would fetch before it runs: it is not a measurement.
func loseFetched(t *testing.T, e *execute.Serving, url string) {
	leg := servingLeg(schema.PathFetch, 50, 2048, 0, 2048)
	_, err := e.Prepare(t.Context(), leg)
	require.NoError(t, err)
	resp, err := http.Post(url+"/reset_prefix_cache?reset_external=true", "", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = e.Run(t.Context(), leg)
	assert.ErrorIs(t, err, execute.ErrNotForced)
	require.NoError(t, e.Cleanup(t.Context(), leg))
	production(t, url, tinyVocab.Prefix([]int64{1, 2, 3}, 1024, 2049)) // it was dropped too, by the test
}
