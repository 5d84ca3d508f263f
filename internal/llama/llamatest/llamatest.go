// Package llamatest gives tests real llama.cpp servers, and a false one that
// misbehaves on purpose.
package llamatest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama"
)

// Binary gives the path of the llama-server, or skips the test where there is
// none: building it takes longer than all other tests, so only the nightly run
// (KVWHATIF_NIGHTLY) fails without it.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := llama.Find()
	if err != nil && os.Getenv("KVWHATIF_NIGHTLY") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}

// TinyShape is a model of 0.5 M weights: tests of behaviour need no more.
func TinyShape() llama.Shape {
	return llama.Shape{Layers: 2, Dim: 128, Heads: 4, KVHeads: 2, FFN: 256, Vocab: 512, Context: 8192, Seed: 1}
}

// Vocab is the plain tokens of TinyShape's model.
func Vocab() llama.Vocab { return llama.Vocab{First: llama.FirstToken, End: 512} }

// Server starts a real server with a tiny model and slots slots of 4096 tokens.
func Server(t testing.TB, slots int) *llama.Server {
	t.Helper()
	binary, dir := Binary(t), t.TempDir()
	model, err := llama.EnsureModel(dir, TinyShape())
	require.NoError(t, err)
	s, err := llama.StartServer(t.Context(), llama.ServerConfig{
		Binary: binary, Model: model, Dir: filepath.Join(dir, "server"), Slots: slots, Context: 4096,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
