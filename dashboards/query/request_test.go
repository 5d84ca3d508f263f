package query

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
)

func TestOfThePage(t *testing.T) { migratetest.Each(t, ofThePage) }

func ofThePage(t *testing.T, conn *clickhouse.Conn) {
	held, err := Held(t.Context(), conn, window)
	require.NoError(t, err)
	require.Equal(t, Holdings{Links: []string{}, Models: []string{}}, held)
	fill(t, conn)
	t.Run("one link", func(t *testing.T) { oneLink(t, conn) })
	t.Run("held", func(t *testing.T) { heldOf(t, conn) })
	t.Run("requests", func(t *testing.T) { requestsOf(t, conn) })
}

func requestsOf(t *testing.T, conn *clickhouse.Conn) {
	exec(t, conn, "INSERT INTO replays (start, trace, span, id, leg, path, worker, gpu_queue, prefill, ttft, model_decision, model_replay) VALUES "+
		"('2026-12-01 09:03:00', unhex('02'), 9, unhex('000102030405060708090a0b0c0d0e0f'), 'rejected', 'recompute', 'w', 0.25, 0.5, 0.75, 1.5, 1)")
	for _, id := range []string{"000102030405060708090a0b0c0d0e0f", "000102030405060708090A0B0C0D0E0F", "4bf92f3577b34da6a3ce929d0e0e4736"} {
		all, err := Requests(t.Context(), conn, id)
		require.NoError(t, err)
		require.Len(t, all, 1, id)
		q := all[0]
		require.Equal(t, "000102030405060708090a0b0c0d0e0f", q.ID)
		require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", q.Trace)
		require.Equal(t, "fetch", q.Path)
		require.Equal(t, report.Timeline{GPUQueue: report.Num(0.25), ExposedStall: report.Num(1), Restore: report.Num(0.125), Prefill: report.Num(0.125), TTFT: report.Num(1.5)}, q.Taken)
		require.False(t, q.Bytes.OK, "what was not said is not zero")
		require.Len(t, q.Candidates, 2)
		require.False(t, q.Candidates[0].Alternative)
		require.True(t, q.Candidates[1].Alternative)
		require.Equal(t, report.Num(0.75), q.Candidates[1].Stages.TTFT)
		require.InDelta(t, 0.625, q.Candidates[1].Stages.ExposedStall.V, 1e-6)
		require.Len(t, q.Replays, 3)
		require.Equal(t, report.Num(1.25), q.Replays[2].Carried)
		require.False(t, q.Replays[0].Stages.TTFT.OK)
	}
	for _, id := range []string{"", "none", "' OR 1 = 1 --", `\`, "0123456789abcdef0123456789abcdef"} {
		all, err := Requests(t.Context(), conn, id)
		require.NoError(t, err)
		if id != "" { // rows without a request id have the empty one
			require.Empty(t, all, id)
		}
	}
}

func heldOf(t *testing.T, conn *clickhouse.Conn) {
	h, err := Held(t.Context(), conn, Window{From: window.From, Until: window.Until, Link: "calm"})
	require.NoError(t, err)
	require.Equal(t, []string{"busy"}, h.Links, "of the window, and not of what it is limited to; no earlier generation")
	require.Equal(t, []string{"m"}, h.Models)
	require.Equal(t, time.Date(2026, 12, 1, 9, 2, 0, 0, time.UTC), h.Newest)
	require.NotZero(t, h.Legs)
	require.EqualValues(t, 2, h.Documents)
}

// oneLink holds that a limited window counts only what it is limited to, and that
// the limit does not bring rows of earlier generations back.
func oneLink(t *testing.T, conn *clickhouse.Conn) {
	of := func(link, model string) report.Data {
		d, err := Data(t.Context(), conn, Window{From: window.From, Until: window.Until, Link: link, Model: model})
		require.NoError(t, err)
		return d
	}
	busy := of("busy", "")
	require.EqualValues(t, 110, busy.Coverage.Requests)
	require.Len(t, busy.Verdicts, 1)
	require.Equal(t, "busy", busy.Verdicts[0].Link)
	require.Equal(t, time.Date(2026, 12, 1, 9, 6, 0, 0, time.UTC), busy.Verdicts[0].At.UTC())
	require.NotEmpty(t, busy.Worst)
	require.NotNil(t, busy.Benefits[0].Measured)
	moved := of("moved", "")
	require.Zero(t, moved.Coverage.Requests)
	require.Empty(t, moved.Worst)
	require.Empty(t, moved.Verdicts)
	require.EqualValues(t, 160, of("", "m").Coverage.Requests)
	require.Empty(t, of("", "m").Verdicts, "a verdict of all models is not one of a single model")
	require.Zero(t, of("", `m' OR 'a' = 'a`).Coverage.Requests)
}
