//go:build !(linux && amd64)

package clickhouse

import "errors"

// libraryRuns says whether libchdb.so can be loaded on this platform.
const libraryRuns = false

func runLibrary(string, []string) error {
	return errors.New("the ClickHouse library runs on Linux x86-64 only")
}
