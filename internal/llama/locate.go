package llama

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Version is the build of llama.cpp that deploy/install-llama.sh installs.
const Version = "11434.0.0"

// EnvServer names a llama-server to use in place of the installed one.
const EnvServer = "KVWHATIF_LLAMA_SERVER"

// ErrNotInstalled says that there is no llama-server.
var ErrNotInstalled = errors.New("no llama-server: run `make llama` (deploy/install-llama.sh, 5 to 15 minutes), or set " + EnvServer)

// Find gives the path of the llama-server: the one that EnvServer names, or the
// installed one. ErrNotInstalled where there is none.
func Find() (string, error) {
	path := os.Getenv(EnvServer)
	if path == "" {
		dir, err := cacheDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, "llama-server")
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", fmt.Errorf("%s: %w", path, ErrNotInstalled)
	}
	return path, nil
}

func cacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache of llama.cpp: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "kvwhatif", "llama", Version), nil
}

// EnsureModel writes a model of the shape to dir, under a name of its shape, and
// gives its path. One that is there stays.
func EnsureModel(dir string, s Shape) (string, error) {
	path := filepath.Join(dir, fmt.Sprintf("random-%dx%dx%dx%dx%dx%dx%d-%d.gguf",
		s.Layers, s.Dim, s.Heads, s.KVHeads, s.FFN, s.Vocab, s.Context, s.Seed))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a model: %w", err)
	}
	f, err := os.CreateTemp(dir, "model-*")
	if err != nil {
		return "", fmt.Errorf("make a model: %w", err)
	}
	defer os.Remove(f.Name()) // gone already where all went well
	if err := errors.Join(WriteModel(f, s), f.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return "", fmt.Errorf("make a model: %w", err)
	}
	return path, nil
}
