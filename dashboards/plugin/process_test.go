package plugin

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/grpcplugin"
	"github.com/grafana/grafana-plugin-sdk-go/genproto/pluginv2"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// built is the plugin as it is shipped, for this system: its directory, with its zip
// beside it.
var built = sync.OnceValues(func() (string, error) {
	out, err := os.MkdirTemp("", "kvwhatif-plugin-")
	if err != nil {
		return "", err
	}
	clickhousetest.AtEnd(func() { os.RemoveAll(out) })
	cmd := exec.Command("go", "run", "./dashboards/plugin/pack", "-out", out, "-systems", system, "-flags", "") // what tests have compiled before is used again
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	return filepath.Join(out, ID), cmd.Run()
})

const system = runtime.GOOS + "/" + runtime.GOARCH

// process is a running plugin, spoken to as Grafana does.
type process struct {
	data        grpcplugin.DataClient
	diagnostics grpcplugin.DiagnosticsClient
	client      *goplugin.Client
}

// started is the built program, started by the handshake of Grafana.
func started(t *testing.T) process {
	t.Helper()
	dir, err := built()
	require.NoError(t, err)
	path := filepath.Join(dir, "gpx_kvwhatif_"+strings.ReplaceAll(system, "/", "_")) // as Grafana looks for it
	client := goplugin.NewClient(&goplugin.ClientConfig{
		Cmd:              exec.Command(path),
		HandshakeConfig:  goplugin.HandshakeConfig{ProtocolVersion: grpcplugin.ProtocolVersion, MagicCookieKey: grpcplugin.MagicCookieKey, MagicCookieValue: grpcplugin.MagicCookieValue},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		VersionedPlugins: map[int]goplugin.PluginSet{grpcplugin.ProtocolVersion: {"data": &grpcplugin.DataGRPCPlugin{}, "diagnostics": &grpcplugin.DiagnosticsGRPCPlugin{}}},
		Logger:           hclog.NewNullLogger(),
		StartTimeout:     time.Minute,
	})
	t.Cleanup(client.Kill)
	rpc, err := client.Client()
	require.NoError(t, err)
	out := process{client: client}
	raw, err := rpc.Dispense("data")
	require.NoError(t, err)
	out.data = raw.(grpcplugin.DataClient)
	raw, err = rpc.Dispense("diagnostics")
	require.NoError(t, err)
	out.diagnostics = raw.(grpcplugin.DiagnosticsClient)
	return out
}

// settingsOf are those of a data source upon a DSN.
func settingsOf(t *testing.T, dsn string, change func(map[string]any)) backend.DataSourceInstanceSettings {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	options := map[string]any{"protocol": "http", "host": u.Hostname(), "port": port, "username": u.User.Username(), "database": u.Path[1:], "rowLimit": 1000, "timeout": 20}
	if u.Scheme == "clickhouse" {
		options["protocol"] = "native"
	}
	if change != nil {
		change(options)
	}
	raw, err := json.Marshal(options)
	require.NoError(t, err)
	password, _ := u.User.Password()
	return backend.DataSourceInstanceSettings{UID: "u", ID: 1, Name: "kvwhatif", Type: ID, JSONData: raw, DecryptedSecureJSONData: map[string]string{"password": password}}
}

// contextOf is what Grafana sends along: settings that differ were changed at
// another time, or the plugin would keep its connection to the earlier ones.
func contextOf(s backend.DataSourceInstanceSettings) *pluginv2.PluginContext {
	changed := int64(xxhash.Sum64String(fmt.Sprint(string(s.JSONData), s.DecryptedSecureJSONData)) >> 24)
	return &pluginv2.PluginContext{OrgId: 1, PluginId: ID, DataSourceInstanceSettings: &pluginv2.DataSourceInstanceSettings{
		Id: s.ID, Uid: s.UID, Name: s.Name, JsonData: s.JSONData, DecryptedSecureJsonData: s.DecryptedSecureJSONData, LastUpdatedMS: changed,
	}}
}

// query asks one question through the process.
func (p process) query(t *testing.T, s backend.DataSourceInstanceSettings, from, until time.Time, queries ...string) backend.Responses {
	t.Helper()
	req := &pluginv2.QueryDataRequest{PluginContext: contextOf(s)}
	for i, q := range queries {
		req.Queries = append(req.Queries, &pluginv2.DataQuery{RefId: strconv.Itoa(i), Json: []byte(q), IntervalMS: 60_000, MaxDataPoints: 500,
			TimeRange: &pluginv2.TimeRange{FromEpochMS: from.UnixMilli(), ToEpochMS: until.UnixMilli()}})
	}
	answer, err := p.data.QueryData(t.Context(), req)
	require.NoError(t, err)
	out, err := backend.FromProto().QueryDataResponse(answer)
	require.NoError(t, err)
	return out.Responses
}

func (p process) health(t *testing.T, s backend.DataSourceInstanceSettings) (bool, string) {
	t.Helper()
	answer, err := p.diagnostics.CheckHealth(t.Context(), &pluginv2.CheckHealthRequest{PluginContext: contextOf(s)})
	require.NoError(t, err)
	return answer.Status == pluginv2.CheckHealthResponse_OK, answer.Message
}

// What is shipped has what Grafana looks for, and plugin.json says what the program
// does.
func TestPack(t *testing.T) {
	dir, err := built()
	require.NoError(t, err)
	z, err := zip.OpenReader(dir + ".zip")
	require.NoError(t, err)
	defer z.Close()
	have := map[string]fs.FileMode{}
	for _, f := range z.File {
		have[strings.TrimPrefix(f.Name, ID+"/")] = f.Mode()
	}
	backend := "gpx_kvwhatif_" + strings.ReplaceAll(system, "/", "_")
	require.ElementsMatch(t, []string{"plugin.json", "module.js", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "img/logo.svg", backend}, slices.Collect(maps.Keys(have)))
	require.EqualValues(t, 0o755, have[backend].Perm(), "Grafana starts it")
	raw, err := os.ReadFile(filepath.Join(dir, "plugin.json"))
	require.NoError(t, err)
	var about struct {
		ID, Type, Executable       string
		Backend, Alerting, Metrics bool
		Annotations                bool
		Dependencies               struct{ GrafanaDependency string }
		Info                       struct{ Logos map[string]string }
	}
	require.NoError(t, json.Unmarshal(raw, &about))
	require.Equal(t, []any{ID, "datasource", "gpx_kvwhatif", ">=7.5.0"}, []any{about.ID, about.Type, about.Executable, about.Dependencies.GrafanaDependency})
	require.True(t, about.Backend && about.Alerting && about.Metrics && about.Annotations)
	for _, logo := range about.Info.Logos {
		require.Contains(t, have, logo)
	}
}
