package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDirRemembersItsState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	first, err := OpenDir(path)
	require.NoError(t, err)
	first.State.KafkaAddr = "127.0.0.1:9"
	require.NoError(t, first.Save())
	require.NoError(t, first.Close())

	second, err := OpenDir(path)
	require.NoError(t, err)
	defer second.Close()
	require.Equal(t, first.State, second.State)
	require.NotEmpty(t, second.State.RunID)
}

func TestDirHoldsOneDemo(t *testing.T) {
	dir, err := OpenDir(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	claim := func(o DemoOptions) error { return (&demo{DemoOptions: o, settings: &Settings{}, dir: dir}).claim() }
	require.NoError(t, claim(DemoOptions{Seed: 1, Requests: 600}))
	require.NoError(t, claim(DemoOptions{Seed: 1, Requests: 600, Report: "other.html"}))
	require.ErrorContains(t, claim(DemoOptions{Seed: 2, Requests: 600}), "holds the demo of --seed 1 --requests 600")
	require.Error(t, claim(DemoOptions{Seed: 1, Requests: 601}))
}

func TestSettingsBelowTheirLeast(t *testing.T) {
	s := DefaultSettings()
	require.NoError(t, s.Validate())
	s.Calibrate.Holdout, s.Calibrate.MinN, s.Replay.Deadline, s.Replay.Parallel, s.Serve.Coordinators = 1, 0, -1, 0, -1
	err := s.Validate()
	for _, says := range []string{"calibrate.hold_out is 1", "calibrate.min_n must be above 0", "replay.deadline must not be negative",
		"replay.parallel must be above 0", "serve.coordinators must not be negative"} {
		require.ErrorContains(t, err, says)
	}
}

func TestDirRefusesWhatItCannotUse(t *testing.T) {
	inUse := t.TempDir()
	held, err := OpenDir(inUse)
	require.NoError(t, err)
	defer held.Close()

	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, stateFile), []byte("{"), 0o600))

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for name, c := range map[string]struct{ path, says string }{
		"in use":    {inUse, "in use by another kvwhatif"},
		"damaged":   {damaged, "is damaged"},
		"not a dir": {file, "create directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenDir(c.path)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "--dir")
		})
	}
}
