package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Grafana of compose finds the dashboards where its provider looks, and they are for
// the datasource that it is given.
func TestComposeProvisionsDashboards(t *testing.T) {
	mounts := map[string]string{}
	grafana := composeProject(t).Services["grafana"]
	for _, v := range grafana.Volumes {
		mounts[v.Target] = v.Source
	}
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, composeDir, "grafana/dashboards/kvwhatif.yaml")), &providers))
	require.Len(t, providers.Providers, 1)
	at := providers.Providers[0].Options.Path
	require.Contains(t, mounts, "/etc/grafana/provisioning/dashboards")
	files, err := filepath.Glob(filepath.Join(mounts[at], "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	home := *grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	require.Equal(t, at, filepath.Dir(home))
	require.FileExists(t, filepath.Join(mounts[at], filepath.Base(home)))
	var sources struct {
		Datasources []struct{ Type string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, composeDir, "grafana/datasources/kvwhatif.yaml")), &sources))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var d struct {
			Panels []struct{ Datasource struct{ Type string } }
		}
		require.NoError(t, json.Unmarshal(raw, &d))
		for _, p := range d.Panels {
			if p.Datasource.Type != "" {
				require.Equal(t, sources.Datasources[0].Type, p.Datasource.Type, file)
			}
		}
	}
}
