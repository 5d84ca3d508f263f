package alerts

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test . -run TestFilesAreWhatIsDefined -update

var update = flag.Bool("update", false, "rewrite the files of rules")

const root = "../.."

// The files in the repository are what the definitions make, and nothing else is there.
func TestFilesAreWhatIsDefined(t *testing.T) {
	made := map[string][]byte{}
	provisioning, err := Provisioning()
	require.NoError(t, err)
	for path, raw := range provisioning {
		made[filepath.Join("provisioning", path)] = raw
	}
	made["prometheus/kvwhatif.rules.yaml"], err = PrometheusRules()
	require.NoError(t, err)
	for path, raw := range made {
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, raw, 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(have), "%s is not what is defined: run go generate ./dashboards/alerts", path)
	}
	found, err := filepath.Glob("provisioning/*/*")
	require.NoError(t, err)
	require.Len(t, found, len(provisioning))
}

var headings = []string{"## What it means", "## How to confirm", "## What to do", "## When to ignore it"}

// Each alert has its page, of one form, in the list of pages; and no page is of none.
func TestEachAlertHasARunbook(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, "docs/runbooks/README.md"))
	require.NoError(t, err)
	for _, a := range Alerts() {
		raw, err := os.ReadFile(filepath.Join(root, "docs/runbooks", a.page()+".md"))
		require.NoError(t, err)
		text := string(raw)
		require.True(t, strings.HasPrefix(text, "# "+a.Name+"\n"), a.page())
		at := 0
		for _, h := range headings {
			i := strings.Index(text, h+"\n")
			require.Greater(t, i, at, "%s: %s", a.page(), h)
			at = i
		}
		require.Contains(t, string(list), "("+a.page()+".md)")
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/runbooks/*.md"))
	require.NoError(t, err)
	require.Len(t, pages, len(Alerts())+1)
}

func TestAlertsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range Alerts() {
		require.False(t, seen[a.Name], a.Name)
		seen[a.Name] = true
		require.NotEmpty(t, a.SQL+a.PromQL, a.Name)
		require.NotEmpty(t, a.Summary, a.Name)
		require.NotEmpty(t, a.Text, a.Name)
		require.Contains(t, []Severity{Critical, Warning}, a.Severity, a.Name)
		require.Equal(t, a.SQL != "", a.Is != "", a.Name)
		require.LessOrEqual(t, len("kvwhatif-prom-"+a.Name), 40, "a uid of Grafana is no longer")
	}
}

var metric = regexp.MustCompile(`kvwhatif_[a-z0-9_]+`)

// A rule of a metric that nobody has would be silent for good.
func TestRulesNameMetricsThatThereAre(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"collector", "calibrate", "internal"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			source.Write(raw)
			return err
		}))
	}
	n := 0
	for _, a := range Alerts() {
		for _, name := range metric.FindAllString(a.PromQL, -1) {
			n++
			first, rest, _ := strings.Cut(strings.TrimPrefix(name, "kvwhatif_"), "_")
			whole := strings.Contains(source.String(), `"`+name+`"`)
			parts := strings.Contains(source.String(), `"kvwhatif_`+first+`_"`) && strings.Contains(source.String(), `"`+rest+`"`)
			require.True(t, whole || parts, "%s: %s", a.Name, name)
		}
	}
	require.Greater(t, n, 10)
}
