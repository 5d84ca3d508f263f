package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// Exit codes: calibrate's where the champion stays, verdict's of --fail-on.
const (
	exitNotPublished = 3
	exitVerdict      = 4
)

// TestStagesAlone runs each stage as a process of its own on Apache Kafka and a
// ClickHouse that are not theirs: from simulated traffic over replays and the
// verdict to signed coefficients.
func TestStagesAlone(t *testing.T) {
	requireEngine(t)
	broker := kafkatest.Shared(t).Addr()
	server, err := clickhouse.StartEmbedded(context.Background(), clickhouse.EmbeddedConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	dir, dsn := t.TempDir(), server.DSN()
	done(t, "migrate", "--clickhouse", dsn)
	free := []string{"--listen", "127.0.0.1:0"}
	collect := start(t, nil, append([]string{"collect", "--kafka", broker, "--grpc", "127.0.0.1:0", "--http", "-"}, free...)...)
	load := start(t, nil, append([]string{"load", "--kafka", broker, "--clickhouse", dsn}, free...)...)
	serve := start(t, nil, append([]string{"serve", "--clickhouse", dsn, "--dir", dir, "--address", "127.0.0.1:0"}, free...)...)
	for _, p := range []*process{collect, load} { // serve is ready once it has a document
		get(t, "http://"+p.at.Metrics+"/readyz")
	}
	d := openTables(t, server.ReaderDSN())

	stopTraffic := simulate(t, collect.at.GRPC, broker, dir)
	d.eventually(stageRequests, "SELECT count() FROM requests FINAL WHERE kind = 'contract'")
	d.eventually(1, "SELECT count() >= 400 FROM replays FINAL")
	stopTraffic()
	checkStages(t, d)
	d.slicesEqualARecount()
	checkReplays(t, d)
	checkVerdict(t, dsn)
	done(t, "simulate", "--scenario", "calm", "--requests", fmt.Sprint(4*stageRequests), "--explore", "0.3", "--otlp", collect.at.GRPC)
	d.eventually(5*stageRequests, "SELECT count() FROM requests FINAL WHERE kind = 'contract'")
	// They are inserted after their requests, and a fit reads both.
	d.eventually(1, "SELECT (SELECT count() FROM transfers FINAL) >= (SELECT countIf(bytes > 0) FROM requests FINAL WHERE kind = 'contract')")
	checkCalibration(t, dsn, dir, serve.at.Coefficients)
	get(t, "http://"+serve.at.Metrics+"/readyz")
	for _, p := range []*process{serve, collect, load} {
		p.stop(t)
	}
}

const stageRequests = 3000

// sampling draws legs as replay and verdict must agree on.
var (
	salted   = []string{"KVWHATIF_REPLAY_SALT=00112233445566778899aabbccddeeff"}
	sampling = []string{"--rate", "0.3", "--control", "0.1"}
)

// simulate starts a fleet that sends its spans to a collector and takes legs, and
// a replayer that sends it some. It gives what ends both.
func simulate(t *testing.T, otlp, broker, dir string) (stop func()) {
	t.Helper()
	fleet := launch(t, nil, "simulate", "--scenario", "busy", "--requests", fmt.Sprint(stageRequests), "--pace", "10", "--explore", "0.3",
		"--base", time.Now().Add(-5*time.Minute).UTC().Format(time.RFC3339), "--otlp", otlp, "--legs", "127.0.0.1:0")
	var url string
	eventually(t, func() error {
		found := regexp.MustCompile(`url=(http://\S+)`).FindStringSubmatch(fleet.said())
		if found == nil {
			return errors.New("the fleet does not say where it takes legs")
		}
		url = found[1]
		return nil
	})
	replay := start(t, salted, append([]string{"replay", "--kafka", broker, "--executor", url, "--otlp", otlp, "--dir", dir,
		"--share", "1", "--parallel", "16", "--listen", "127.0.0.1:0"}, sampling...)...)
	return func() {
		replay.stop(t)
		require.NotContains(t, replay.said(), "WARN", "an orderly stop is nothing to warn of")
		fleet.stop(t)
	}
}

// checkVerdict wants an answer about each pair of paths that has legs, and none
// without an interval or a reason.
func checkVerdict(t *testing.T, dsn string) {
	t.Helper()
	args := append([]string{"verdict", "--clickhouse", dsn, "--since", "1h", "--settle", "0s"}, sampling...)
	r := runIn(t, salted, append(args, "--output", "json")...)
	require.Zero(t, r.code, r.stderr)
	var answer struct {
		Verdicts []struct {
			Path, Alternative, State, Reason string
			Requests, Replays                int
			Own                              *struct {
				Low   float64 `json:"low_seconds"`
				High  float64 `json:"high_seconds"`
				Level float64
				N     int
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &answer))
	require.NotEmpty(t, answer.Verdicts)
	legs := 0
	for _, v := range answer.Verdicts {
		legs += v.Replays
		if v.Own == nil {
			require.Equal(t, "unknown", v.State)
			require.NotEmpty(t, v.Reason, "%s against %s has neither interval nor reason", v.Path, v.Alternative)
			continue
		}
		require.Less(t, v.Own.Low, v.Own.High)
		require.Positive(t, v.Own.Level)
		require.Positive(t, v.Own.N)
		if v.State == "unknown" && v.Reason == "" {
			require.True(t, v.Own.Low <= 0 && v.Own.High >= 0, "%s against %s is unknown, and its interval leaves 0 out", v.Path, v.Alternative)
		}
	}
	require.Positive(t, legs)
	require.Equal(t, exitVerdict, runIn(t, salted, append(args, "--fail-on", "helping,hurting,unknown", "--dry-run")...).code)
}

// checkCalibration wants a first fit to be published and served, and the same data
// again to change nothing.
func checkCalibration(t *testing.T, dsn, dir, at string) {
	t.Helper()
	calibrate := []string{"calibrate", "--clickhouse", dsn, "--dir", dir, "--services", "coordinator-calm", "--window", "1h"}
	done(t, calibrate...)
	get := []string{"coefficients", "get", "--url", "http://" + at, "--public-key", filepath.Join(dir, "calibrate.pub"), "--raw"}
	var document struct{ Revision int64 }
	eventually(t, func() error {
		r := runIn(t, nil, get...)
		return json.Unmarshal([]byte(r.stdout), &document)
	})
	require.Positive(t, document.Revision)
	again := runIn(t, nil, calibrate...)
	require.Equal(t, exitNotPublished, again.code, again.stderr)
	require.NotEmpty(t, again.stderr)
}
