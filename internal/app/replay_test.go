package app

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/internal/config/units"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// freeAddr is an address that nothing listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// stages is a broker with what runs against it.
type stages struct {
	t        *testing.T
	settings Settings
	group    *errgroup.Group
	ctx      context.Context
	stop     context.CancelFunc
}

func newStages(t *testing.T) *stages {
	t.Helper()
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir(), Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	s := DefaultSettings()
	s.Dir, s.Kafka, s.Topics.Partitions = t.TempDir(), broker.Cluster(), 1
	s.Collect.GRPC, s.Collect.HTTP = "127.0.0.1:0", "-"
	s.Replay.Rate, s.Replay.Control, s.Replay.Share, s.Replay.Parallel = 0.4, 0.05, 1, 64
	s.Replay.Salt = "00112233445566778899aabbccddeeff"
	s.Replay.Deadline = units.Duration(time.Hour)
	out := &stages{t: t, settings: s}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	out.stop = cancel
	out.group, out.ctx = errgroup.WithContext(ctx)
	t.Cleanup(cancel)
	return out
}

// start runs a stage, and returns when it listens.
func (s *stages) start(ctx context.Context, run func(context.Context, *Settings, *slog.Logger, Announce) error) Endpoints {
	s.t.Helper()
	settings, at := s.settings, make(chan Endpoints, 1)
	s.group.Go(func() error { return run(ctx, &settings, quiet(), func(e Endpoints) { at <- e }) })
	select {
	case e := <-at:
		return e
	case <-s.ctx.Done():
		require.NoError(s.t, s.group.Wait())
		s.t.Fatal("the stage did not start")
		return Endpoints{}
	}
}

// follow gives each part of the topic to see, until it returns false.
func (s *stages) follow(see func(*schema.Part) bool) {
	s.t.Helper()
	r, err := kafka.NewPartitionReader(s.settings.Kafka, schema.TopicParts, 0, 0)
	require.NoError(s.t, err)
	defer r.Close()
	var decoder wire.Decoder
	for {
		m, err := r.Read(s.ctx)
		require.NoError(s.t, err)
		for frame, err := range wire.Frames(m.Value) {
			require.NoError(s.t, err)
			var p schema.Part
			require.NoError(s.t, decoder.Part(frame, &p))
			if !see(&p) {
				return
			}
		}
	}
}

// TestReplayOverKafka has a simulated fleet send its decisions through a collector
// and run the legs that the replayer draws: what comes back is by the plan
// that the preview named, once each.
func TestReplayOverKafka(t *testing.T) {
	const requests = 300
	s := newStages(t)
	collect := s.start(s.ctx, Collect)
	s.settings.Replay.OTLP = collect.GRPC
	legs := freeAddr(t)
	s.settings.Replay.Executor = "http://" + legs
	s.group.Go(func() error {
		_, err := Simulate(s.ctx, SimulateOptions{
			Scenario: ScenarioBusy, Policy: PolicyFetchAll, Requests: requests, Seed: 1, Explore: 0.3, OTLP: collect.GRPC, Legs: legs,
		}, quiet())
		return err
	})
	decisions := 0
	s.follow(func(p *schema.Part) bool {
		decisions++
		return decisions < requests
	})
	preview, err := PreviewReplay(s.ctx, &s.settings, 0)
	require.NoError(t, err)
	want := 0
	for _, e := range preview.preview.Strata {
		want += e.Rejected + e.Control
	}
	// Without new traffic nothing is earned any more, so the last legs may wait for ever.
	enough := want / 2
	require.Greater(t, enough, 10)
	require.Equal(t, requests, preview.preview.Decisions)
	require.Contains(t, preview.Text(), "Would cost")

	at := s.start(s.ctx, Replay)
	require.Equal(t, preview.preview.Plan, at.Plan)
	seen := map[schema.SpanID]int{}
	s.follow(func(p *schema.Part) bool {
		if p.Kind != schema.KindReplay {
			return true
		}
		seen[p.Span]++
		assert.Equal(t, at.Plan, p.Replay.Plan)
		assert.True(t, p.Observed.TTFT.OK)
		return len(seen) < enough
	})
	s.stop()
	require.NoError(t, s.group.Wait())
	for span, n := range seen {
		require.Equal(t, 1, n, "leg %s came %d times", span, n)
	}
}

func TestReplayIsKilledOverHTTPAndByFile(t *testing.T) {
	s := newStages(t)
	s.settings.Listen = "127.0.0.1:0"
	s.settings.Replay.Executor, s.settings.Replay.OTLP = "http://"+freeAddr(t), freeAddr(t)
	at := s.start(s.ctx, Replay)
	require.Contains(t, ask(t, "PUT", at.Metrics, "/v1/replay/kill?why=test"), `"killed":"test"`)
	require.Contains(t, ask(t, "GET", at.Metrics, "/metrics"), "kvwhatif_replay_killed 1")
	require.Contains(t, ask(t, "DELETE", at.Metrics, "/v1/replay/kill"), `"killed":""`)
	require.NoError(t, os.WriteFile(filepath.Join(s.settings.Dir, killFile), nil, 0o600))
	require.Contains(t, ask(t, "GET", at.Metrics, "/v1/replay/kill"), killFile)
	require.Contains(t, ask(t, "GET", at.Metrics, "/readyz"), "ok")
	s.stop()
	require.NoError(t, s.group.Wait())
}
