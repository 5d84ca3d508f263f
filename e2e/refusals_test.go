package e2e

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusal is a command that must not start, and what it must say.
type refusal struct {
	name string
	env  []string
	args []string
	code int
	says []string // what is wrong, and what to do
}

// progressLine is one of a demo's, which may have begun.
var progressLine = regexp.MustCompile(`(?m)^ +[0-9.]+ s  .*\n`)

// checkRefusals wants each to end with its code and one line.
func checkRefusals(t *testing.T, cases []refusal) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := runIn(t, c.env, append(c.args, "--log-level", "warn")...)
			require.Equal(t, c.code, r.code, r.stderr)
			require.Empty(t, r.stdout)
			line, more, _ := strings.Cut(progressLine.ReplaceAllString(r.stderr, ""), "\n")
			require.Empty(t, more, "more than one line")
			require.True(t, strings.HasPrefix(line, "kvwhatif: "), line)
			for _, says := range c.says {
				require.Contains(t, line, says)
			}
			require.LessOrEqual(t, len(line), 400, line)
			checkNoRepeats(t, line)
		})
	}
}

// checkNoRepeats wants no clause twice in a line.
func checkNoRepeats(t *testing.T, line string) {
	t.Helper()
	seen := map[string]bool{}
	for _, clause := range strings.Split(line, ": ") {
		require.False(t, seen[clause], "%q is there twice: %s", clause, line)
		seen[clause] = true
	}
}

// TestRefusals starts what can not run: each says what is wrong and what to do.
func TestRefusals(t *testing.T) {
	empty := t.TempDir()
	file := func(body string) string {
		path := filepath.Join(t.TempDir(), "kvwhatif.yaml")
		require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
		return path
	}
	checkRefusals(t, []refusal{
		{"no engine", []string{"HOME=" + empty, "XDG_CACHE_HOME=" + empty, "PATH=" + empty, "KVWHATIF_CLICKHOUSE_LIB="},
			[]string{"up", "--dir", t.TempDir()}, 1, []string{"ClickHouse", "make engine"}},
		{"no engine for a demo", []string{"HOME=" + empty, "XDG_CACHE_HOME=" + empty, "PATH=" + empty, "KVWHATIF_CLICKHOUSE_LIB="},
			[]string{"demo", "--dir", t.TempDir()}, 1, []string{"ClickHouse", "make engine"}},
		{"no such config", nil, []string{"up", "--config", filepath.Join(empty, "none.yaml")}, 2, []string{"none.yaml"}},
		{"a config that is a directory", nil, []string{"up", "--config", empty}, 2, []string{empty}},
		{"a config that is no YAML", nil, []string{"up", "--config", file("dir: [\n")}, 2, []string{"kvwhatif.yaml"}},
		{"an unknown key", nil, []string{"up", "--config", file("collect:\n  gprc: 127.0.0.1:1\n")}, 2, []string{"gprc", "grpc", ":2"}},
		{"a value of another type", nil, []string{"up", "--config", file("topics:\n  partitions: many\n")}, 2, []string{"topics.partitions", "many"}},
		{"a value out of range", nil, []string{"up", "--config", file("replay:\n  share: 7\n")}, 2, []string{"replay.share"}},
		{"a wrong variable", []string{"KVWHATIF_LOAD_MAX_ROWS=lots"}, []string{"up"}, 2, []string{"KVWHATIF_LOAD_MAX_ROWS"}},
		{"an unknown flag", nil, []string{"up", "--grcp", "x"}, 2, []string{"--grcp", "--help"}},
		{"an unknown command", nil, []string{"colect"}, 2, []string{"colect", "did you mean collect?"}},
		{"an unknown command below another", nil, []string{"config", "shw"}, 2, []string{"shw", "did you mean show?"}},
		{"an argument too many", nil, []string{"up", "now"}, 2, []string{"now"}},
		{"a directory that is a file", nil, []string{"up", "--dir", file("")}, 1, []string{"--dir"}},
		{"load without Kafka", nil, []string{"load"}, 1, []string{"--kafka"}},
		{"collect without Kafka", nil, []string{"collect"}, 1, []string{"--kafka"}},
		{"a broker that is not there", nil, []string{"collect", "--kafka", closedPort(t)}, 1, []string{"Kafka"}},
		{"a database that is not there", nil, []string{"migrate", "--clickhouse", "http://u:p@" + closedPort(t) + "/kvwhatif"}, 1, []string{"ClickHouse"}},
		{"a verdict where nothing runs", nil, []string{"verdict", "--dir", empty}, 1, []string{"--clickhouse"}},
	})
}

// TestRefusalsBesideAnother starts a second one where a first one runs.
func TestRefusalsBesideAnother(t *testing.T) {
	requireEngine(t)
	dir := t.TempDir()
	up := startUp(t, dir, nil)
	free := []string{"--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--address", "127.0.0.1:0", "--page", "-"}
	checkRefusals(t, []refusal{
		{"directory in use", nil, append([]string{"up", "--dir", dir}, free...), 1, []string{dir, "in use", "--dir"}},
		{"directory of a demo in use", nil, []string{"demo", "--dir", dir}, 1, []string{dir, "in use", "--dir"}},
		{"OTLP/gRPC port in use", nil, append(append([]string{"up", "--dir", t.TempDir()}, free...), "--grpc", up.at.GRPC), 1, []string{up.at.GRPC, "in use", "collect.grpc"}},
		{"OTLP/HTTP port in use", nil, append(append([]string{"up", "--dir", t.TempDir()}, free...), "--http", up.at.HTTP), 1, []string{up.at.HTTP, "in use", "collect.http"}},
		{"coefficient port in use", nil, append(append([]string{"up", "--dir", t.TempDir()}, free...), "--address", up.at.Coefficients), 1, []string{up.at.Coefficients, "in use", "address"}},
		{"metrics port in use", nil, append(append([]string{"up", "--dir", t.TempDir()}, free...), "--listen", up.at.Metrics), 1, []string{up.at.Metrics, "in use", "listen"}},
	})
	require.True(t, up.running(), "the first one goes on")
	up.stop(t)
}

// closedPort is an address that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
