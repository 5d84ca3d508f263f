package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

// settings stands for those of the program.
type settings struct {
	Name    string  `koanf:"name"`
	Collect collect `koanf:"collect"`
	DSN     string  `koanf:"dsn"`
	Secret  string  `koanf:"secret" secret:"true"`
}

type collect struct {
	Brokers  []string          `koanf:"brokers"`
	MaxBatch int               `koanf:"max_batch"`
	Wait     time.Duration     `koanf:"wait"`
	Keep     units.Duration    `koanf:"keep"`
	Bound    units.Bytes       `koanf:"bound"`
	Link     units.Rate        `koanf:"link"`
	Share    float64           `koanf:"share"`
	On       bool              `koanf:"on"`
	Sharers  []int             `koanf:"sharers"`
	Labels   map[string]string `koanf:"labels"`
}

func (s *settings) Validate() error {
	if s.Collect.MaxBatch < 0 {
		return errors.New("collect.max_batch is negative")
	}
	return nil
}

func defaults() *settings {
	return &settings{Name: "default", Collect: collect{MaxBatch: 1, Brokers: []string{"a:1", "b:2", "c:3"}}}
}

func write(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "k.yaml")
	require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
	return path
}

func TestPrecedenceAndOrigins(t *testing.T) {
	path := write(t, "name: file\ncollect:\n  max_batch: 2\n  wait: 90s\n  brokers: [x:1]\n")
	flags := pflag.NewFlagSet("t", pflag.ContinueOnError)
	flags.String("name", "unset flag", "")
	flags.Duration("wait", 0, "")
	flags.Int("collect-max-batch", 0, "")
	flags.String("other", "", "")
	require.NoError(t, flags.Parse([]string{"--wait=3s", "--collect-max-batch=4", "--other=x"}))
	s := defaults()
	loaded, err := Load(s, Options{
		File: path, Flags: flags, FlagKeys: map[string]string{"wait": "collect.wait"},
		Environ: []string{"KVWHATIF_COLLECT_MAX_BATCH=3", "KVWHATIF_COLLECT_ON=true", "KVWHATIF_COLLECT_WAIT=1s", "KVWHATIF_NOTHING=1", "PATH=x"},
	})
	require.NoError(t, err)
	require.Equal(t, path, loaded.File)
	require.Equal(t, []string{"KVWHATIF_NOTHING"}, loaded.Unknown)
	require.Equal(t, "file", s.Name)
	require.Equal(t, []string{"x:1"}, s.Collect.Brokers)
	require.Equal(t, 3*time.Second, s.Collect.Wait)
	sources := map[string]string{}
	for _, o := range loaded.Origins() {
		sources[o.Key] = o.Value + " from " + o.Source
	}
	require.Equal(t, map[string]string{
		"name":              "file from file " + path + ":1",
		"dsn":               " from default",
		"secret":            " from default",
		"collect.brokers":   "[x:1] from file " + path + ":5",
		"collect.max_batch": "4 from flag --collect-max-batch",
		"collect.wait":      "3s from flag --wait",
		"collect.keep":      "0s from default",
		"collect.bound":     "0B from default",
		"collect.link":      "0bit/s from default",
		"collect.share":     "0 from default",
		"collect.on":        "true from environment KVWHATIF_COLLECT_ON",
		"collect.sharers":   "[] from default",
		"collect.labels":    "map[] from default",
	}, sources)
}

func TestTypesFromEverySource(t *testing.T) {
	want := collect{
		Brokers: []string{"h:1", "i:2"}, MaxBatch: 7, Wait: 24 * time.Hour, Keep: units.Duration(168 * time.Hour),
		Bound: 64 << 20, Link: 50e9, Share: 0.5, On: true, Sharers: []int{1, 16}, Labels: map[string]string{"a": "b"},
	}
	file := "collect:\n  brokers: [h:1, i:2]\n  max_batch: 7\n  wait: 1d\n  keep: 7d\n  bound: 64MiB\n  link: 400Gbit/s\n  share: 0.5\n  on: true\n  sharers: [1, 16]\n  labels: {a: b}\n"
	s := defaults()
	_, err := Load(s, Options{File: write(t, file), Environ: []string{}})
	require.NoError(t, err)
	require.Equal(t, want, s.Collect)

	s = defaults()
	_, err = Load(s, Options{File: write(t, "# nothing\n"), Environ: []string{
		"KVWHATIF_COLLECT_BROKERS=h:1, i:2", "KVWHATIF_COLLECT_MAX_BATCH=7", "KVWHATIF_COLLECT_WAIT=1d", "KVWHATIF_COLLECT_KEEP=7d",
		"KVWHATIF_COLLECT_BOUND=64MiB", "KVWHATIF_COLLECT_LINK=400Gbit/s", "KVWHATIF_COLLECT_SHARE=0.5", "KVWHATIF_COLLECT_ON=1", "KVWHATIF_COLLECT_SHARERS=1,16",
	}})
	require.NoError(t, err)
	want.Labels = nil
	require.Equal(t, want, s.Collect)

	s = defaults()
	flags := pflag.NewFlagSet("t", pflag.ContinueOnError)
	flags.StringSlice("collect.brokers", nil, "")
	flags.IntSlice("collect.sharers", nil, "")
	flags.Var(&s.Collect.Bound, "bound", "")
	require.NoError(t, flags.Parse([]string{"--collect.brokers=h:1,i:2", "--collect.sharers=1,16", "--bound=1GiB"}))
	_, err = Load(s, Options{File: write(t, ""), Flags: flags, FlagKeys: map[string]string{"bound": "collect.bound"}, Environ: []string{}})
	require.NoError(t, err)
	require.Equal(t, []string{"h:1", "i:2"}, s.Collect.Brokers)
	require.Equal(t, []int{1, 16}, s.Collect.Sharers)
	require.EqualValues(t, 1<<30, s.Collect.Bound)
}

func TestFileErrorsAreOneLineWithPathAndLine(t *testing.T) {
	for body, want := range map[string]string{
		"name: a\ncollect:\n  max_bach: 1\n": ":3: unknown key collect.max_bach: did you mean collect.max_batch?",
		"max_batch: 1\n":                     ":1: unknown key max_batch: did you mean collect.max_batch?",
		"qqqqqqqqqqq: 1\n":                   ":1: unknown key qqqqqqqqqqq: `kvwhatif config show` lists the keys",
		"name: a\nname: b\n":                 ":2: name is set twice, first at line 1",
		"name: [a\n":                         "did not find expected",
		"name: a\n\tb: c\n":                  "found",
		"name: a\n---\nname: b\n":            "more than one YAML document",
		"- a\n":                              ":1: the file must be a mapping",
		"collect: 5\n":                       ":1: collect must be a mapping",
		"collect:\n  max_batch: many\n":      `:2): "many" is not a whole number`,
		"collect:\n  max_batch: 1.5\n":       `:2): "1.5" is not a whole number: it has a fraction`,
		"collect:\n  max_batch: true\n":      "is not a whole number: it is a bool",
		"collect:\n  wait: 5\n":              `:2): "5" is not a duration`,
		"collect:\n  bound: 1G\n":            "can mean two things",
		"collect:\n  link: 400\n":            "is not a rate",
		"collect:\n  on: 3\n":                "is not a yes or no",
		"collect:\n  max_batch: -1\n":        "configuration: collect.max_batch is negative",
		"collect:\n  sharers: [1, x]\n":      "is not a list",
		"collect:\n  labels: [1, x]\n":       "is not a mapping",
		"secret: [1, 2]\n":                   "the secret is not a string",
	} {
		path := write(t, body)
		_, err := Load(defaults(), Options{File: path, Environ: []string{}})
		require.ErrorContains(t, err, want, body)
		require.NotContains(t, err.Error(), "\n", body)
		if want != "configuration: collect.max_batch is negative" {
			require.ErrorContains(t, err, path)
		}
	}
}

func TestEnvironmentErrorNamesTheVariable(t *testing.T) {
	for value, want := range map[string]string{"": "it is empty", "x": "is not a whole number"} {
		_, err := Load(defaults(), Options{File: write(t, ""), Environ: []string{"KVWHATIF_COLLECT_MAX_BATCH=" + value}})
		require.ErrorContains(t, err, "collect.max_batch (environment KVWHATIF_COLLECT_MAX_BATCH): ")
		require.ErrorContains(t, err, want)
	}
}

func TestWhichFile(t *testing.T) {
	_, err := Load(defaults(), Options{File: "/missing/k.yaml", Environ: []string{}})
	require.ErrorContains(t, err, "read the configuration file: open /missing/k.yaml")

	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home)
	t.Chdir(t.TempDir())
	loaded, err := Load(defaults(), Options{Environ: []string{}})
	require.NoError(t, err)
	require.Empty(t, loaded.File)

	dir, err := os.UserConfigDir()
	require.NoError(t, err)
	user := filepath.Join(dir, "kvwhatif", FileName)
	require.NoError(t, os.MkdirAll(filepath.Dir(user), 0o755))
	require.NoError(t, os.WriteFile(user, []byte("name: user\n"), 0o600))
	require.Equal(t, user, fileOf(t, ""))
	require.NoError(t, os.WriteFile(FileName, []byte("name: here\n"), 0o600))
	require.Equal(t, FileName, fileOf(t, ""))
	named := write(t, "name: named\n")
	require.Equal(t, named, fileOf(t, "KVWHATIF_CONFIG="+named))
	require.NoError(t, os.Remove(FileName))
	require.NoError(t, os.Mkdir(FileName, 0o755))
	_, err = Load(defaults(), Options{Environ: []string{}})
	require.ErrorContains(t, err, "read the configuration file")
}

func fileOf(t *testing.T, variable string) string {
	t.Helper()
	loaded, err := Load(defaults(), Options{Environ: []string{variable}})
	require.NoError(t, err)
	return loaded.File
}

func TestSecretsAreHidden(t *testing.T) {
	loaded, err := Load(defaults(), Options{File: write(t, "secret: salt\ndsn: http://me:pass@h:1/d\n"), Environ: []string{}})
	require.NoError(t, err)
	for _, o := range loaded.Origins() {
		require.NotContains(t, o.Value, "salt")
		require.NotContains(t, o.Value, "pass")
	}
}

func TestLoadRefusesWhatIsNoStruct(t *testing.T) {
	_, err := Load(settings{}, Options{})
	require.ErrorContains(t, err, "is not a pointer to a struct")
	_, err = Load(&struct{ A int }{}, Options{})
	require.ErrorContains(t, err, "has no koanf tag")
}

func FuzzFile(f *testing.F) {
	for _, s := range []string{"name: a\n", "collect: {on: true}\n", "a: &x [1]\nb: *x\n", "name: a\n---\nname: b\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		path := filepath.Join(t.TempDir(), "k.yaml")
		require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
		if _, err := Load(defaults(), Options{File: path, Environ: []string{}}); err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
	})
}
