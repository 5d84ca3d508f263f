package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// composeEnv is .env.example with every secret filled in.
func composeEnv(t *testing.T) map[string]string {
	t.Helper()
	env, err := dotenv.Parse(strings.NewReader(readFile(t, composeDir, ".env.example")))
	require.NoError(t, err)
	for name, value := range env {
		require.Empty(t, value, "%s: an example of a secret would be used as one", name)
		env[name] = "secret-of-" + strings.ReplaceAll(strings.ToLower(name), "_", "-")
	}
	return env
}

func loadCompose(t *testing.T, env map[string]string) (*types.Project, error) {
	t.Helper()
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(composeDir, "compose.yaml")},
		cli.WithEnv(list), cli.WithDefaultProfiles("*"), cli.WithResolvedPaths(true))
	require.NoError(t, err)
	return options.LoadProject(t.Context())
}

func composeProject(t *testing.T) *types.Project {
	t.Helper()
	project, err := loadCompose(t, composeEnv(t))
	require.NoError(t, err)
	require.Empty(t, project.DisabledServices)
	return project
}

// isOurs is true for services that run kvwhatif.
func isOurs(s types.ServiceConfig) bool { return s.Build != nil }

// known are the secrets, as values.
func values(env map[string]string) (out []string) {
	for _, value := range env {
		out = append(out, value)
	}
	return out
}

func TestComposeRefusesMissingSecrets(t *testing.T) {
	for name := range composeEnv(t) {
		env := composeEnv(t)
		env[name] = ""
		_, err := loadCompose(t, env)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "set it in .env")
	}
}

func TestComposeRunsTheProgram(t *testing.T) {
	project := composeProject(t)
	stages := map[string]bool{}
	for name, s := range project.Services {
		if !isOurs(s) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := composeProcess(t, s, values(composeEnv(t)))
			stages[p.args[0]] = true
			found := p.check(t)
			checkPorts(t, s, found)
			checkHosts(t, project, p.args[0], s, found)
			checkHealth(t, s, found)
		})
	}
	for stage := range needs {
		require.True(t, stages[stage], "no service runs %s", stage)
	}
}

func composeProcess(t *testing.T, s types.ServiceConfig, secret []string) process {
	t.Helper()
	p := process{args: s.Command, env: map[string]string{}, secret: secret}
	for name, value := range s.Environment {
		require.NotNil(t, value, name)
		p.env[name] = *value
	}
	for _, v := range s.Volumes {
		if v.Target == p.env["KVWHATIF_CONFIG"] {
			require.True(t, v.ReadOnly)
			p.config = v.Source
		}
	}
	require.NotEmpty(t, p.config, "the settings file is not mounted")
	return p
}

// checkPorts holds what is published against what is listened on.
func checkPorts(t *testing.T, s types.ServiceConfig, found map[string]setting) {
	t.Helper()
	listens := []string{}
	for _, key := range []string{"collect.grpc", "collect.http", "serve.address"} {
		listens = append(listens, found[key].Value)
	}
	for _, p := range s.Ports {
		require.Contains(t, listens, "0.0.0.0:"+strconv.Itoa(int(p.Target)), "nothing listens on %d", p.Target)
	}
}

// checkHosts finds the servers that are named among the services, and what a
// service waits for among those it needs.
func checkHosts(t *testing.T, project *types.Project, stage string, s types.ServiceConfig, found map[string]setting) {
	t.Helper()
	for _, key := range needs[stage] {
		switch key {
		case "kafka.brokers":
			require.Contains(t, project.Services, host(t, found[key].Value))
			require.Contains(t, s.DependsOn, "kafka")
		case "replay.otlp":
			require.Contains(t, project.Services, host(t, found[key].Value))
		case "replay.executor":
			require.Contains(t, project.Services, host(t, strings.TrimPrefix(found[key].Value, "http://")))
		case "clickhouse.dsn":
			require.Contains(t, *s.Environment["KVWHATIF_CLICKHOUSE_DSN"], "@clickhouse:8123/kvwhatif")
			if stage != "migrate" {
				require.Equal(t, types.ServiceConditionCompletedSuccessfully, s.DependsOn["migrate"].Condition)
			}
		case "calibrate.key":
			require.True(t, slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
				return v.Target == filepath.Dir(found[key].Value) && v.Source == "keys"
			}), "the key would be lost with the container")
		}
	}
}

func checkHealth(t *testing.T, s types.ServiceConfig, found map[string]setting) {
	t.Helper()
	if !slices.Contains(needs[s.Command[0]], "listen") {
		return
	}
	require.NotNil(t, s.HealthCheck)
	require.Equal(t, "deploy/ready.sh", installed(t)[s.HealthCheck.Test[1]])
	require.Equal(t, port(t, found["listen"].Value), s.HealthCheck.Test[2])
}

func TestComposeIsCareful(t *testing.T) {
	project := composeProject(t)
	for name, s := range project.Services {
		require.NotEmpty(t, s.Restart, name)
		require.NotNil(t, s.Deploy.Resources.Limits, name)
		require.Positive(t, s.Deploy.Resources.Limits.MemoryBytes, name)
		for _, p := range s.Ports {
			require.Equal(t, "127.0.0.1", p.HostIP, "%s is open to the network", name)
		}
		for _, v := range s.Volumes {
			checkVolume(t, project, v)
		}
		if isOurs(s) {
			require.True(t, s.ReadOnly, name)
			require.Equal(t, []string{"ALL"}, s.CapDrop, name)
			require.Equal(t, root, relative(t, s.Build.Context))
			require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
			continue
		}
		require.Regexp(t, `:v?\d+\.\d+\.\d+$`, s.Image, "%s is not pinned", name)
		require.NotNil(t, s.HealthCheck, name)
	}
}

func checkVolume(t *testing.T, project *types.Project, v types.ServiceVolumeConfig) {
	t.Helper()
	if v.Type == types.VolumeTypeVolume {
		require.Contains(t, project.Volumes, v.Source)
		return
	}
	_, err := os.Stat(v.Source)
	require.NoError(t, err)
	require.True(t, v.ReadOnly, v.Source)
}

func relative(t *testing.T, dir string) string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	out, err := filepath.Rel(here, dir)
	require.NoError(t, err)
	return out
}

// The servers are those that the tests run against.
func TestComposeRunsTestedVersions(t *testing.T) {
	project := composeProject(t)
	pom := regexp.MustCompile(`<artifactId>kafka_[\d.]+</artifactId>\s*<version>([\d.]+)<`).
		FindStringSubmatch(readFile(t, root, "internal", "kafka", "kafkatest", "pom.xml"))
	require.Equal(t, "apache/kafka:"+pom[1], project.Services["kafka"].Image)
	engine := regexp.MustCompile(`EngineVersion = "([\d.]+)-`).FindStringSubmatch(readFile(t, root, "internal", "clickhouse", "engine.go"))
	require.Equal(t, "clickhouse/clickhouse-server:"+engine[1], project.Services["clickhouse"].Image)
}

// Grafana reads as the user that may only select.
func TestGrafanaDatasource(t *testing.T) {
	var file struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			UID, Type string
			JSONData  struct {
				Host, Protocol, Username, DefaultDatabase string
				Port                                      int
			}
			SecureJSONData struct{ Password string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, composeDir, "grafana", "datasources", "kvwhatif.yaml")), &file))
	require.Len(t, file.Datasources, 1)
	d, project := file.Datasources[0], composeProject(t)
	require.Contains(t, *project.Services["grafana"].Environment["GF_PLUGINS_PREINSTALL_SYNC"], d.Type+"@")
	require.Contains(t, project.Services, d.JSONData.Host)
	users := readFile(t, composeDir, "clickhouse", "reader.xml")
	require.Contains(t, users, "<"+d.JSONData.Username+">")
	require.Contains(t, users, "<readonly>2</readonly>")
	variable := strings.TrimPrefix(d.SecureJSONData.Password, "$")
	require.Contains(t, users, `from_env="`+variable+`"`)
	for _, service := range []string{"grafana", "clickhouse"} {
		require.Contains(t, project.Services[service].Environment, variable)
	}
}
