package clickhouse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// EngineVersion is the package version of the library that `make engine`
// installs; the server in it calls itself 26.7.
const EngineVersion = "26.7.3-stable.1"

// LibraryVariable names the environment variable that overrides where the
// library is.
const LibraryVariable = "KVWHATIF_CLICKHOUSE_LIB"

// ErrNoEngine is wrapped by FindEngine's error when there is nothing to run.
var ErrNoEngine = errors.New("no embedded ClickHouse")

// Engine says what an embedded server is started from. One of the two is set.
type Engine struct {
	Library string // path of libchdb.so
	Binary  string // path of a clickhouse binary
}

// String names the engine for people.
func (e Engine) String() string {
	if e.Library != "" {
		return "library " + e.Library
	}
	return "binary " + e.Binary
}

// FindEngine looks for an engine: the library that KVWHATIF_CLICKHOUSE_LIB
// names, the one that `make engine` cached, then a clickhouse binary on PATH.
// Its error is one line that says what to do.
func FindEngine() (Engine, error) {
	if path := os.Getenv(LibraryVariable); path != "" {
		return namedLibrary(path)
	}
	if path, err := CachedLibrary(); libraryRuns && err == nil && isFile(path) {
		return Engine{Library: path}, nil
	}
	if path, err := exec.LookPath("clickhouse"); err == nil {
		if path, err = filepath.Abs(path); err == nil {
			return Engine{Binary: path}, nil
		}
	}
	if !libraryRuns {
		return Engine{}, fmt.Errorf("%w for %s/%s: install clickhouse so that it is on PATH, or name a server with --clickhouse http://HOST:8123/kvwhatif",
			ErrNoEngine, runtime.GOOS, runtime.GOARCH)
	}
	return Engine{}, fmt.Errorf("%w found: run `make engine`, or set %s to a libchdb.so, or name a server with --clickhouse http://HOST:8123/kvwhatif",
		ErrNoEngine, LibraryVariable)
}

func namedLibrary(path string) (Engine, error) {
	if !libraryRuns {
		return Engine{}, fmt.Errorf("%w: %s is set, but the library runs on linux/amd64 only, and this is %s/%s: unset it and install clickhouse, or name a server with --clickhouse",
			ErrNoEngine, LibraryVariable, runtime.GOOS, runtime.GOARCH)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return Engine{}, fmt.Errorf("%s: %w", LibraryVariable, err)
	}
	if !isFile(path) {
		return Engine{}, fmt.Errorf("%w: %s names %s, which is not a file: correct it, or unset it and run `make engine`", ErrNoEngine, LibraryVariable, path)
	}
	return Engine{Library: path}, nil
}

// CachedLibrary is where `make engine` puts the library, there or not.
func CachedLibrary() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user cache: %w", err)
	}
	return filepath.Join(cache, "kvwhatif", "clickhouse", EngineVersion, "libchdb.so"), nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
