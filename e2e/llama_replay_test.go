package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/e2e/otlptest"
	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/internal/llama/llamatest"
	"github.com/kvwhatif/kvwhatif/schema"
)

const (
	llamaDecisions = 12
	llamaPrefix    = 768
	llamaPrompt    = 800
)

// TestReplayOnLlama has the built program run the paths not taken on a real
// llama-server: decisions come by OTLP, and the results of their legs are in the
// tables, as the server's own counts prove them.
func TestReplayOnLlama(t *testing.T) {
	requireEngine(t)
	engine := llamatest.Server(t, 2)
	dir, tier := t.TempDir(), t.TempDir()
	up := startUp(t, dir, nil)
	replay := start(t, llamaEnvironment(engine, tier), "replay", "--dir", dir, "--otlp", up.at.GRPC, "--listen", "127.0.0.1:0", "--log-level", "info",
		"--executor", "w1=llamacpp+"+engine.URL, "--engine-tier", "disk", "--share", "1", "--rate", "1", "--control", "1")
	eventually(t, func() error {
		if found, _ := filepath.Glob(filepath.Join(tier, "rack-1", "*.kv")); len(found) != 1 {
			return errors.New("the replay namespace is not built: " + tail(replay.said(), 500))
		}
		return nil
	})
	s := newSender(t, up.at.GRPC, 0)
	begin := time.Now().Add(-time.Minute)
	for n := range llamaDecisions {
		answer, err := s.export(context.Background(), requestOf(otlptest.Contract(llamaDecision(n, begin))))
		require.NoError(t, err)
		require.Zero(t, answer.GetPartialSuccess().GetRejectedSpans())
	}
	d := openTables(t, up.at.ClickHouse)
	d.eventually(2*llamaDecisions, "SELECT count() FROM replays FINAL")
	for _, path := range []string{"fetch", "recompute"} {
		require.EqualValues(t, llamaDecisions, d.number(fmt.Sprintf("SELECT countIf(path = '%s') FROM replays FINAL", path)), path)
	}
	require.Zero(t, d.number("SELECT countIf(NOT (ttft > 0 AND prefill > 0 AND worker = 'w1')) FROM replays FINAL"))
	require.Zero(t, d.number("SELECT countIf(path = 'fetch' AND NOT (transfer > 0 AND restore > 0 AND bytes > 0)) FROM replays FINAL"))
	require.Less(t, d.number("SELECT avgIf(prefill, path = 'fetch') FROM replays FINAL"), d.number("SELECT avgIf(prefill, path = 'recompute') FROM replays FINAL"),
		"to compute 32 tokens takes less than to compute 800")
	replay.stop(t)
	require.NotContains(t, replay.said(), "level=ERROR")
	left, err := os.ReadDir(engine.SaveDir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left with the server")
}

func llamaEnvironment(engine *llama.Server, tier string) []string {
	v := llamatest.Vocab()
	return []string{
		salted[0], "KVWHATIF_REPLAY_ENGINE_LLAMA_SLOT=1", "KVWHATIF_REPLAY_ENGINE_LLAMA_SAVE_PATH=" + engine.SaveDir,
		"KVWHATIF_REPLAY_ENGINE_LLAMA_TIER_DIR=" + tier, "KVWHATIF_REPLAY_ENGINE_LLAMA_TIER_LINKS=rack-1", "KVWHATIF_REPLAY_ENGINE_LLAMA_TIER_RATE=1Gbit/s",
		fmt.Sprintf("KVWHATIF_REPLAY_ENGINE_TOKENS=%d-%d", v.First, v.End),
		"KVWHATIF_REPLAY_STOCK_MODEL=m", fmt.Sprintf("KVWHATIF_REPLAY_STOCK_SIZES=%d", llamaPrefix),
	}
}

// llamaDecision chose to fetch or to recompute, by turns. It took so long that its
// legs have a budget however slow this machine is.
func llamaDecision(n int, begin time.Time) *schema.Part {
	p := contract(n, begin)
	d := &p.Decision
	d.Path, d.Chosen, d.Worker, d.SourceTier = schema.PathRecompute, schema.Some(int64(1)), "w1", schema.TierNone
	d.TokensPrompt, d.TokensPrefix, d.TokensReused = schema.Some(int64(llamaPrompt)), schema.Some(int64(llamaPrefix)), schema.Some(int64(0))
	d.PrefixBlocks = []int64{1, 2, int64(n)}
	d.Candidates = []schema.Candidate{
		{Path: schema.PathFetch, Worker: "w1", Tier: schema.TierDisk, Links: "rack-1", TokensFetched: llamaPrefix, TokensComputed: llamaPrompt - llamaPrefix,
			Bytes: 1 << 20, Bandwidth: 1.25e8, Restore: 0.01, Recompute: 0.02, TTFT: 0.05, Propensity: 0.5},
		{Path: schema.PathRecompute, Worker: "w1", TokensComputed: llamaPrompt, Bytes: -1, Recompute: 0.2, TTFT: 0.2, Propensity: 0.5},
	}
	o := &p.Observed
	p.EndNanos = p.StartNanos + 20e9
	o.TTFT, o.Prefill, o.Bytes, o.Transfer, o.TransferStart = schema.Some(20.0), schema.Some(15.0), schema.Count{}, schema.Seconds{}, schema.Seconds{}
	if n%2 == 0 {
		d.Path, d.Chosen, d.SourceTier, d.TokensReused = schema.PathFetch, schema.Some(int64(0)), schema.TierDisk, schema.Some(int64(llamaPrefix))
		o.Bytes, o.Transfer, o.TransferStart = schema.Some(int64(1<<24)), schema.Some(0.04), schema.Some(0.01)
	}
	return p
}
