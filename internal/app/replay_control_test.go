package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// stuck is an executor whose legs never end by themselves. It says when one comes,
// and when its client has gone.
type stuck struct {
	*httptest.Server
	came, gone chan struct{}
}

func newStuck(t *testing.T) *stuck {
	s := &stuck{came: make(chan struct{}, 1000), gone: make(chan struct{}, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != execute.LegsPath {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s.came <- struct{}{}
		<-r.Context().Done()
		s.gone <- struct{}{}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestASignalStopsLegsUnderWay: SIGUSR1 reaches the executor's own requests, and the
// commands then see and turn the same switch, with a replayer and without one.
func TestASignalStopsLegsUnderWay(t *testing.T) {
	const requests = 150
	s := newStages(t)
	s.settings.Listen = "127.0.0.1:0"
	collect := s.start(s.ctx, Collect)
	s.settings.Replay.OTLP = collect.GRPC
	executor := newStuck(t)
	s.settings.Replay.Executor = executor.URL
	_, err := Simulate(s.ctx, SimulateOptions{
		Scenario: ScenarioBusy, Policy: PolicyFetchAll, Requests: requests, Seed: 1, Explore: 0.3, OTLP: collect.GRPC,
	}, quiet())
	require.NoError(t, err)
	at := s.start(s.ctx, Replay)
	<-executor.came
	require.Contains(t, ask(t, "GET", at.Metrics, "/metrics"), "kvwhatif_replay_breaker_open 0")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	<-executor.gone

	here := func() *ReplayStatus {
		v, err := ReplayStatusOf(s.ctx, &s.settings, ReplayControl{})
		require.NoError(t, err)
		return v
	}
	for here().UnderWay > 0 { // each answer is a round trip
	}
	v := here()
	require.Equal(t, "SIGUSR1", v.Killed)
	require.True(t, v.Running)
	require.Positive(t, v.Dropped["killed"])
	require.Contains(t, v.Text(), "Stopped: SIGUSR1")
	require.Contains(t, v.Text(), "estimates are refused")

	v, err = ResumeReplays(s.ctx, &s.settings, ReplayControl{})
	require.NoError(t, err)
	require.Empty(t, v.Killed)
	v, err = StopReplays(s.ctx, &s.settings, ReplayControl{URL: "http://" + at.Metrics + "/"}, "incident 12")
	require.NoError(t, err)
	require.Equal(t, "incident 12", v.Killed)
	s.stop()
	require.NoError(t, s.group.Wait())

	s.ctx = t.Context()
	v = here()
	require.False(t, v.Running, "by what the directory holds")
	require.Equal(t, "incident 12", v.Killed, "the switch outlasts the replayer")
	require.Positive(t, v.Drawn)
	require.Equal(t, at.Plan, v.Plan)
	require.Contains(t, v.Text(), "Stopped: incident 12")
	v, err = ResumeReplays(s.ctx, &s.settings, ReplayControl{})
	require.NoError(t, err)
	require.Empty(t, v.Killed)
	require.Contains(t, v.Text(), "No replayer answers")
	_, err = StopReplays(s.ctx, &s.settings, ReplayControl{URL: "http://" + at.Metrics}, "x")
	require.Error(t, err, "who names a replayer means that one")
}

func TestStopWithoutADirectorySaysWhatToDo(t *testing.T) {
	s := DefaultSettings()
	s.Dir = filepath.Join(t.TempDir(), "none")
	_, err := StopReplays(t.Context(), &s, ReplayControl{}, "x")
	require.ErrorContains(t, err, "--url")
}

// TestVerdictFollowsTheReplayersPlans: the epochs of a verdict are the plans that the
// replayer kept, from its directory or its endpoint; another salt's are blind.
func TestVerdictFollowsTheReplayersPlans(t *testing.T) {
	s := DefaultSettings()
	s.Dir = t.TempDir()
	salt := []byte("sixteen bytes or more")
	first, err := s.Replay.plan(salt)
	require.NoError(t, err)
	h := sample.NewHistory(first)
	stratum := sample.Stratum{Path: schema.PathFetch, Size: 1}
	next, err := first.Replan([]sample.Count{{Stratum: stratum, Decisions: 1e4, SD: 1, Cost: 1}}, sample.Funds{GPUSeconds: 10})
	require.NoError(t, err)
	since := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	require.NoError(t, h.Append(since.UnixNano(), next, first.ID(), "budget"))
	raw, err := json.Marshal(h.Entries())
	require.NoError(t, err)

	none, err := s.plansKept(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	file := filepath.Join(s.Dir, legsDir, replay.PlansFile)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) }))
	defer server.Close()
	seen := []planSeen{{ID: first.ID(), First: since.Add(-time.Hour)}}
	for _, from := range []string{"", file, server.URL + replay.PlansPath} {
		s.Replay.Plans = from
		entries, err := s.plansKept(t.Context())
		require.NoError(t, err)
		epochs, notes, err := epochsOf(entries, salt, seen)
		require.NoError(t, err)
		require.Empty(t, notes)
		require.Len(t, epochs, 2)
		require.Equal(t, []any{first.ID(), next.ID()}, []any{epochs[0].Plan.ID(), epochs[1].Plan.ID()})
		require.Equal(t, []time.Time{since.Add(-time.Hour), since}, []time.Time{epochs[0].Since, epochs[1].Since})
	}
	entries, err := s.plansKept(t.Context())
	require.NoError(t, err)
	epochs, notes, err := epochsOf(entries, []byte("another salt, also long"), seen)
	require.NoError(t, err)
	require.Len(t, notes, 2)
	require.True(t, epochs[0].Blind && epochs[1].Blind)
	require.Equal(t, next.ID(), epochs[1].ID)

	s.Replay.Plans = filepath.Join(s.Dir, "nothing.json")
	_, err = s.plansKept(t.Context())
	require.ErrorContains(t, err, "replay.plans")
}

func TestTheGateLeavesBusyEnginesToTheirExecutor(t *testing.T) {
	s := DefaultSettings()
	require.Equal(t, budget.DefaultIdle(), s.Replay.gate())
	s.Replay.Engine.MaxBusy = 4
	require.Equal(t, budget.Idle{MaxFlows: 8}, s.Replay.gate())
}

func TestReplaySettingsThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		"breaker":      func(s *Settings) { s.Replay.Breaker.Factor = 0.5 },
		"replay.adapt": func(s *Settings) { s.Replay.Adapt = -1 },
		"replay.idle":  func(s *Settings) { s.Replay.Idle.Flows = -1 },
	} {
		s := DefaultSettings()
		change(&s)
		require.ErrorContains(t, s.Validate(), want)
	}
}
