package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/coreos/go-systemd/v22/unit"
	"github.com/stretchr/testify/require"
)

const systemdDir = "systemd"

// installedAt is where the units expect the program.
const installedAt = "/usr/local/bin/kvwhatif"

// unitOf reads a unit: values by "Section.Name".
func unitOf(t *testing.T, name string) map[string][]string {
	t.Helper()
	options, err := unit.DeserializeOptions(strings.NewReader(readFile(t, systemdDir, name)))
	require.NoError(t, err)
	out := map[string][]string{}
	for _, o := range options {
		key := o.Section + "." + o.Name
		out[key] = append(out[key], o.Value)
	}
	return out
}

func TestSystemdRunsTheProgram(t *testing.T) {
	config, err := filepath.Abs(filepath.Join(systemdDir, "kvwhatif.yaml"))
	require.NoError(t, err)
	listens := map[string]string{}
	for stage := range needs {
		if stage == "simulate" || stage == "migrate" { // migrate is run by hand, once a version
			continue
		}
		t.Run(stage, func(t *testing.T) {
			u := unitOf(t, "kvwhatif-"+stage+".service")
			program, line, _ := strings.Cut(u["Service.ExecStart"][0], " ")
			require.Equal(t, installedAt, program)
			p := process{args: strings.Fields(line), config: config}
			p.env, p.secret = unitEnvironment(t, u)
			found := p.check(t)
			if listen := found["listen"].Value; listen != "" {
				require.Empty(t, listens[listen], "two units listen on %s", listen)
				listens[listen] = stage
			}
			checkState(t, u, p, found)
		})
	}
}

// unitEnvironment is what systemd would set, with secrets filled in.
func unitEnvironment(t *testing.T, u map[string][]string) (env map[string]string, secret []string) {
	t.Helper()
	require.Equal(t, []string{"/etc/kvwhatif/kvwhatif.env"}, u["Service.EnvironmentFile"])
	env, err := dotenv.Parse(strings.NewReader(readFile(t, systemdDir, "kvwhatif.env.example")))
	require.NoError(t, err)
	for name := range env {
		env[name] = "http://u:secret-of-file@h:8123/kvwhatif"
	}
	for _, line := range u["Service.Environment"] {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	require.Equal(t, "/etc/kvwhatif/kvwhatif.yaml", env["KVWHATIF_CONFIG"])
	return env, []string{"secret-of-file"}
}

// checkState finds the directories that a stage writes among those it may write.
func checkState(t *testing.T, u map[string][]string, p process, found map[string]setting) {
	t.Helper()
	writable := strings.Join(u["Service.StateDirectory"], " ")
	if dir, ok := strings.CutPrefix(p.env["KVWHATIF_DIR"], "/var/lib/"); ok {
		require.Contains(t, strings.Fields(writable), dir)
	}
	for _, key := range needs[p.args[0]] {
		if key == "calibrate.key" {
			require.Contains(t, strings.Fields(writable), strings.TrimPrefix(filepath.Dir(found[key].Value), "/var/lib/"))
		}
	}
}

func TestSystemdIsCareful(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(systemdDir, "*.service"))
	require.NoError(t, err)
	require.NotEmpty(t, units)
	for _, file := range units {
		u := unitOf(t, filepath.Base(file))
		require.Equal(t, []string{"kvwhatif"}, u["Service.User"], file)
		for _, name := range []string{"ProtectSystem", "NoNewPrivileges", "SystemCallFilter", "MemoryMax"} {
			require.NotEmpty(t, u["Service."+name], "%s has no %s", file, name)
		}
		if u["Service.Type"][0] == "oneshot" {
			if strings.HasSuffix(u["Service.ExecStart"][0], " calibrate") {
				require.Equal(t, []string{"3"}, u["Service.SuccessExitStatus"])
			}
			require.FileExists(t, strings.TrimSuffix(file, "service")+"timer")
			continue
		}
		require.Equal(t, []string{"always"}, u["Service.Restart"])
		require.NotEmpty(t, u["Install.WantedBy"])
	}
}

// systemd itself reads the units, with the program where it is now.
func TestSystemdVerifies(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("no systemd-analyze here")
	}
	require.NoError(t, err, "CI needs systemd-analyze (package systemd)")
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, pattern := range []string{"*.service", "*.timer"} {
		files, err := filepath.Glob(filepath.Join(systemdDir, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text := strings.ReplaceAll(readFile(t, file), installedAt, binary)
			copied := filepath.Join(dir, filepath.Base(file))
			require.NoError(t, os.WriteFile(copied, []byte(text), 0o600))
			args = append(args, copied)
		}
	}
	out, err := exec.Command(analyze, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
