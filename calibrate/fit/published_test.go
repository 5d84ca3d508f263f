package fit

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// published reads a CSV of internal/publicdata as rows by column name.
func published(t *testing.T, name string) []map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../internal/publicdata/" + name)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\ufeff"))).ReadAll()
	require.NoError(t, err)
	out := make([]map[string]string, 0, len(rows))
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, column := range rows[0] {
			m[column] = row[i]
		}
		out = append(out, m)
	}
	return out
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}

// ds4 is a ladder of prefills of 2,048 tokens after ever longer contexts.
func ds4(t *testing.T) (obs []PrefillObs) {
	for i, r := range published(t, "ds4_m4_max_prefill.csv") {
		n := number(t, r["prefill_tokens"])
		obs = append(obs, PrefillObs{Computed: n, Before: number(t, r["ctx_tokens"]) - n,
			Seconds: n / number(t, r["prefill_tps"]), At: int64(i)})
	}
	return obs
}

func prefillError(law cost.Prefill, obs []PrefillObs) float64 {
	sum := 0.0
	for _, o := range obs {
		sum += math.Abs(law.Seconds(o.Computed, o.Before)/o.Seconds - 1)
	}
	return sum / float64(len(obs))
}

// leaveOneOut is the mean relative error of each point by the fit, form and all,
// of the others.
func leaveOneOut[T any](t *testing.T, obs []T, errorOf func(rest []T, out T) float64) float64 {
	t.Helper()
	sum := 0.0
	for i := range obs {
		rest := append(append([]T(nil), obs[:i]...), obs[i+1:]...)
		e := errorOf(rest, obs[i])
		t.Logf("left out %d: %.2f %%", i, 100*e)
		sum += e
	}
	mean := sum / float64(len(obs))
	t.Logf("mean relative error of held-out points: %.2f %%", 100*mean)
	return mean
}

func prefillLeaveOneOut(t *testing.T, obs []PrefillObs) float64 {
	return leaveOneOut(t, obs, func(rest []PrefillObs, out PrefillObs) float64 {
		law, _, err := Prefill(rest)
		require.NoError(t, err)
		return prefillError(law, []PrefillObs{out})
	})
}

func TestPublishedPrefillDS4(t *testing.T) {
	obs := ds4(t)
	assert.LessOrEqual(t, prefillLeaveOneOut(t, obs), 0.02)

	half := len(obs) / 2
	law, q, err := Prefill(obs[:half])
	require.NoError(t, err)
	ahead := prefillError(law, obs[half:])
	t.Logf("from %v tokens to twice that, by %s: %.2f %%", q.MaxTokens, q.Form, 100*ahead)
	assert.LessOrEqual(t, ahead, 0.05)
	assert.Zero(t, law.C0, "every step is 2,048 tokens: c0 is not to be told from c1")
}

func TestPublishedPrefillLLMD(t *testing.T) {
	var obs []PrefillObs
	for _, r := range published(t, "published_rows.csv") {
		if strings.HasPrefix(r["id"], "LDg") {
			obs = append(obs, PrefillObs{Computed: number(t, r["tokens"]),
				Seconds: number(t, r["prefill_or_recompute_ms"]) / 1e3, At: int64(len(obs))})
		}
	}
	require.Len(t, obs, 5)
	assert.LessOrEqual(t, prefillLeaveOneOut(t, obs), 0.03)
}

func TestPublishedTransferMooncake(t *testing.T) {
	var points []WirePoint
	for _, r := range published(t, "published_rows.csv") {
		if strings.HasPrefix(r["id"], "MCv") {
			points = append(points, WirePoint{Bytes: number(t, r["kv_mib"]) * (1 << 20),
				Seconds: number(t, r["fetch_ms"]) / 1e3})
		}
	}
	require.Len(t, points, 9)
	got := leaveOneOut(t, points, func(rest []WirePoint, out WirePoint) float64 {
		law, _, err := Ladder(rest)
		require.NoError(t, err)
		return math.Abs(law.Seconds(out.Bytes, 1)/out.Seconds - 1)
	})
	assert.LessOrEqual(t, got, 0.045)
	law, q, err := Ladder(points)
	require.NoError(t, err)
	t.Logf("%s: %+v", q.Form, law)
}
