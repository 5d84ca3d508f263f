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
