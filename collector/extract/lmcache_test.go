package extract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kvwhatif/kvwhatif/schema"
)

func TestCapturedLMCache(t *testing.T) {
	var got strings.Builder
	parts := make(map[string]schema.Part)
	files, err := filepath.Glob("testdata/lmcache/*.pb")
	require.NoError(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		var out Result
		require.NoError(t, Extract(b, DefaultLimits(now), &out))
		require.Empty(t, out.Rejected)
		for _, p := range out.Parts {
			parts[p.RequestID] = p
			fmt.Fprintf(&got, "%s %v %v %s tier %q tokens %v duration %.6f\n", p.RequestID, p.Trace, p.Span, p.Transfer.Operation,
				p.Transfer.Tier, p.Transfer.Tokens.V, p.Transfer.Duration.V)
		}
	}
	golden(t, "lmcache/parts_run6.golden", got.String())

	// The look-ups join the requests that clients saw, and what LMCache found is
	// no more than what was not computed.
	f, err := os.Open("testdata/lmcache/truth_run6.jsonl")
	require.NoError(t, err)
	defer f.Close()
	joined, external := 0, 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var truth struct {
			Case     string
			Response string `json:"response_id"`
			Prompt   int64  `json:"prompt_tokens"`
			Cached   int64  `json:"cached_tokens"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &truth))
		p, ok := parts[truth.Response]
		if !ok {
			continue
		}
		joined++
		require.LessOrEqual(t, p.Transfer.Tokens.V, truth.Prompt, truth.Case)
		if p.Transfer.Tokens.V > 0 {
			external++
			require.GreaterOrEqual(t, truth.Cached, p.Transfer.Tokens.V, truth.Case)
		}
	}
	require.Len(t, parts, joined, "every look-up has its request")
	require.Positive(t, external)
}

func TestLMCacheRequestID(t *testing.T) {
	for session, want := range map[string]string{
		"cmpl-865c-0-80b1e617":                 "cmpl-865c",
		"cmpl-865c-1-80b1e617":                 "cmpl-865c-1",
		"chatcmpl-865c-80b1e617":               "chatcmpl-865c",
		"cmpl-kvwhatif-replay-p1-7-0-80b1e617": "kvwhatif-replay-p1-7",
		"cmpl-865c-0":                          "cmpl-865c",
		"0-80b1e61z":                           "0-80b1e61z",
		"-80b1e617":                            "-80b1e617",
	} {
		require.Equal(t, want, lmcacheRequestID(session), session)
	}
}

func TestLMCacheRefused(t *testing.T) {
	for want, s := range map[string]*tracepb.Span{
		`"many" is no number`:  {Attributes: []*commonpb.KeyValue{{Key: "hit_tokens", Value: anyValue("many")}}},
		"-5 is negative":       {Attributes: []*commonpb.KeyValue{{Key: "hit_tokens", Value: anyValue("-5")}}},
		"an int, not a string": {Attributes: []*commonpb.KeyValue{{Key: "hit_tokens", Value: anyValue(5)}}},
	} {
		s.Name, s.TraceId, s.SpanId, s.StartTimeUnixNano, s.EndTimeUnixNano = "mp.lookup_prefetch", make([]byte, 16), make([]byte, 8), now, now
		s.TraceId[0], s.SpanId[0] = 1, 1
		var out Result
		require.NoError(t, Extract(request(t, s), DefaultLimits(now), &out))
		require.Equal(t, 1, out.Ignored, "another scope is another's span")
		require.NoError(t, Extract(requestOf(t, "lmcache_mp.server", s), DefaultLimits(now), &out))
		require.Len(t, out.Rejected, 1)
		require.Contains(t, out.Rejected[0].Reason, want)
	}
}
